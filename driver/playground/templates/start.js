// How the page finds what it needs: beside it on a server.

export async function loadCatalog() { return (await fetch("catalog.json")).json(); }

export function startWorker() { return new Worker("worker.js", {type: "module"}); }
