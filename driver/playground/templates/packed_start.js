// How the page finds what it needs: within itself.

export async function loadCatalog() { return JSON.parse(document.getElementById("catalog").textContent); }

export function startWorker() {
  const code = document.getElementById("worker").textContent;
  return new Worker(URL.createObjectURL(new Blob([code], {type: "text/javascript"})));
}
