"""`tosaic playground`: pages on which the RTL runs networks in a browser.

Comes in: networks and configurations. Goes out: a folder for a web server, or one file that opens from a disk. The
machine is the simulator in WebAssembly (`tosaic.sim.rtl.wasm_build`), the programs are those of `tosaic compile`; the
page's own code in `templates/` knows no number of the hardware: `catalog.py` writes them down for it.
"""

from .catalog import Demo, catalog_of
from .demos import chat_demo, digits_demo, model_demo
from .folder import write_folder, write_single

__all__ = ["Demo", "catalog_of", "chat_demo", "digits_demo", "model_demo", "write_folder", "write_single"]
