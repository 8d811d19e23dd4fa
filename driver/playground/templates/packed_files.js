// The bytes of a file of this page: packed into it.

export async function bytesOf(name) {
  const bytes = Uint8Array.from(atob(packed[name]), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}
