"""The CABAC decoder: NNR payloads (ISO/IEC 15938-17, second working draft, clause 11) to int8 weights.

Clause 11 cannot run as printed; docs/cabac.md says how it is read here. `Engine` decodes one stream.
"""
