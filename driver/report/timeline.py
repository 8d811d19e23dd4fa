"""The chart of units over time: drawn by the browser, since there may be tens of thousands of pieces."""

from collections.abc import Sequence
from typing import Any

from tosaic.sim.result import Slice

_UNITS = ("LOAD", "ARRAY", "VECTOR", "STORE")


def timeline_data(stats: dict[str, Any], timeline: Sequence[Slice]) -> dict[str, Any]:
    """What the script draws: per track [start, cycles, name number, bytes] of every piece."""
    names: dict[str, int] = {}
    tracks: list[list[list[int]]] = [[] for _ in range(1 + len(_UNITS))]
    start = 0
    for layer in stats["layers"]:
        number = names.setdefault(f"{layer['name']} ({layer['op']})", len(names))
        tracks[0].append([start, layer["cycles"], number, 0])
        start += layer["cycles"]
    for piece in sorted(timeline, key=lambda piece: piece.start):
        number = names.setdefault(piece.name, len(names))
        tracks[1 + _UNITS.index(piece.unit)].append(
            [piece.start, piece.end - piece.start, number, piece.bytes]
        )
    return {"cycles": stats["cycles"], "titles": ["layers", *_UNITS], "names": list(names), "tracks": tracks}


TIMELINE_SCRIPT = """
(function(){
const canvas=document.getElementById("timeline"),tip=document.getElementById("tip"),pen=canvas.getContext("2d");
const left=70,height=32,colours=["#5a6b7b","#d9a441","#2f6fb3","#3f9d78","#a05fa8"];
let from=0,to=DATA.cycles,drag=null;
function scale(){return (canvas.width/devicePixelRatio-left)/(to-from);}
function draw(){
 const ratio=devicePixelRatio,width=canvas.clientWidth;
 canvas.width=width*ratio;canvas.height=190*ratio;pen.setTransform(ratio,0,0,ratio,0,0);
 pen.clearRect(0,0,width,190);pen.font="12px system-ui,sans-serif";
 const s=scale();
 DATA.tracks.forEach((track,row)=>{
  const y=6+row*height;
  pen.fillStyle="#44535f";pen.fillText(DATA.titles[row],6,y+17);
  pen.save();pen.beginPath();pen.rect(left,y,width-left,height);pen.clip();
  let filled=-1;
  track.forEach(([start,cycles,name],index)=>{
   if(start+cycles<from||start>to)return;
   const x=left+(start-from)*s,w=Math.max(cycles*s,.6);
   if(x+w<filled+.5)return;
   pen.globalAlpha=index%2?.75:1;pen.fillStyle=colours[row];pen.fillRect(x,y,w,height-8);filled=x+w;pen.globalAlpha=1;
   if(w>60){pen.fillStyle="#fff";pen.save();pen.beginPath();pen.rect(x,y,w-4,height);pen.clip();
    pen.fillText(DATA.names[name],x+4,y+16);pen.restore();}
  });
  pen.restore();
 });
 pen.fillStyle="#44535f";
 const span=to-from,unit=Math.pow(10,Math.floor(Math.log10(span/4)));
 const tick=unit*(span/unit>20?5:span/unit>8?2:1);
 for(let t=Math.ceil(from/tick)*tick;t<=to;t+=tick){
  const x=left+(t-from)*s;pen.fillRect(x,168,1,5);
  pen.textAlign=x>width-40?"right":"center";pen.fillText(t.toLocaleString(),x,186);}
 pen.textAlign="left";
}
function at(event){const box=canvas.getBoundingClientRect();return [event.clientX-box.left,event.clientY-box.top];}
canvas.addEventListener("wheel",event=>{event.preventDefault();
 const [x]=at(event),cycle=from+(x-left)/scale(),factor=event.deltaY<0?.8:1.25;
 from=Math.max(0,cycle-(cycle-from)*factor);to=Math.min(DATA.cycles,cycle+(to-cycle)*factor);
 if(to-from<20)to=from+20;draw();},{passive:false});
canvas.addEventListener("mousedown",event=>{drag=[at(event)[0],from,to];});
window.addEventListener("mouseup",()=>{drag=null;});
canvas.addEventListener("dblclick",()=>{from=0;to=DATA.cycles;draw();});
canvas.addEventListener("mousemove",event=>{
 const [x,y]=at(event);
 if(drag){const moved=(drag[0]-x)/scale(),span=drag[2]-drag[1];
  from=Math.min(Math.max(0,drag[1]+moved),DATA.cycles-span);to=from+span;draw();return;}
 const row=Math.floor((y-6)/height),cycle=from+(x-left)/scale(),track=DATA.tracks[row]||[];
 const piece=track.find(([start,cycles])=>start<=cycle&&cycle<start+cycles);
 tip.textContent=piece?`${DATA.titles[row]}: ${DATA.names[piece[2]]}, cycles ${piece[0].toLocaleString()} to `+
  `${(piece[0]+piece[1]).toLocaleString()} (${piece[1].toLocaleString()})`+
  (piece[3]?`, ${piece[3].toLocaleString()} bytes`:""):"";});
window.addEventListener("resize",draw);draw();
})();
"""
