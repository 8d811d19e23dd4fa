"""The style sheet of the pages that Tosaic writes."""

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c2733}
h1{font-size:1.5rem} h2{font-size:1.15rem;margin:2rem 0 .3rem} p{margin:.2rem 0 .6rem;color:#5a6b7b}
table{border-collapse:collapse;width:100%} td,th{padding:.15rem .6rem;text-align:left}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums} tr:nth-child(even){background:#f3f6f9}
.bar{background:#2f6fb3;height:.8rem;border-radius:2px} summary{color:#5a6b7b;cursor:pointer;margin:.3rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem} dt{color:#5a6b7b} dd{margin:0}
svg,canvas{width:100%;display:block;background:#fbfcfd;border:1px solid #dde4ea;border-radius:4px}
svg text{font:12px system-ui,sans-serif;fill:#44535f} #tip{min-height:1.5rem;font-variant-numeric:tabular-nums}
"""
