(function(){
const DATA={{ timeline | tojson }};
const canvas=document.getElementById("timeline"),tip=document.getElementById("tip"),pen=canvas.getContext("2d");
const left=70,height=32,tall=190,hues=["--steel","--amber","--blue","--green","--violet"];
let from=0,to=DATA.cycles,grip=null;
const touches=new Map();
function colour(name){return getComputedStyle(document.documentElement).getPropertyValue(name).trim();}
function scale(){return (canvas.clientWidth-left)/(to-from);}
function show(a,b){
 const span=Math.min(Math.max(b-a,20),DATA.cycles);
 from=Math.min(Math.max(0,a),DATA.cycles-span);to=from+span;draw();}
function zoom(factor,cycle=(from+to)/2){show(cycle-(cycle-from)*factor,cycle+(to-cycle)*factor);}
function draw(){
 const ratio=devicePixelRatio,width=canvas.clientWidth,ink=colour("--mute");
 canvas.width=width*ratio;canvas.height=tall*ratio;pen.setTransform(ratio,0,0,ratio,0,0);
 pen.clearRect(0,0,width,tall);pen.font="12px system-ui,sans-serif";
 const s=scale();
 DATA.tracks.forEach((track,row)=>{
  const y=6+row*height,paint=colour(hues[row]);
  pen.fillStyle=ink;pen.fillText(DATA.titles[row],6,y+17);
  pen.save();pen.beginPath();pen.rect(left,y,width-left,height);pen.clip();
  let filled=-1;
  track.forEach(([start,cycles,name],index)=>{
   if(start+cycles<from||start>to)return;
   const x=left+(start-from)*s,w=Math.max(cycles*s,.6);
   if(x+w<filled+.5)return;
   pen.globalAlpha=index%2?.75:1;pen.fillStyle=paint;pen.fillRect(x,y,w,height-8);filled=x+w;pen.globalAlpha=1;
   if(w>60){pen.fillStyle="#fff";pen.save();pen.beginPath();pen.rect(x,y,w-4,height);pen.clip();
    pen.fillText(DATA.names[name],Math.max(x,left)+4,y+16);pen.restore();}
  });
  pen.restore();
 });
 pen.fillStyle=ink;
 const span=to-from,marks=Math.max(width/220,2),unit=Math.pow(10,Math.floor(Math.log10(span/marks)));
 const tick=unit*(span/unit>5*marks?10:span/unit>2*marks?5:span/unit>marks?2:1);
 for(let t=Math.ceil(from/tick)*tick;t<=to;t+=tick){
  const x=left+(t-from)*s;pen.fillRect(x,168,1,5);
  pen.textAlign=x>width-40?"right":"center";pen.fillText(t.toLocaleString("en"),x,186);}
 pen.textAlign="left";
}
function place(event){const box=canvas.getBoundingClientRect();return [event.clientX-box.left,event.clientY-box.top];}
function tell([x,y]){
 const row=Math.floor((y-6)/height),cycle=from+(x-left)/scale(),track=DATA.tracks[row]||[];
 const piece=track.find(([start,cycles])=>start<=cycle&&cycle<start+cycles);
 tip.textContent=piece?`${DATA.titles[row]}: ${DATA.names[piece[2]]}, cycles ${piece[0].toLocaleString("en")} to `+
  `${(piece[0]+piece[1]).toLocaleString("en")} (${piece[1].toLocaleString("en")})`+
  (piece[3]?`, ${piece[3].toLocaleString("en")} bytes`:""):"";}
canvas.addEventListener("wheel",event=>{if(!event.ctrlKey&&document.activeElement!==canvas)return;
 event.preventDefault();zoom(event.deltaY<0?.8:1.25,from+(place(event)[0]-left)/scale());},{passive:false});
canvas.addEventListener("pointerdown",event=>{canvas.setPointerCapture(event.pointerId);
 touches.set(event.pointerId,place(event)[0]);grip=[place(event)[0],from,to,spread()];});
function spread(){const [a,b]=[...touches.values()];return b===undefined?0:Math.abs(a-b);}
canvas.addEventListener("pointermove",event=>{
 const at=place(event);
 if(!touches.has(event.pointerId)){tell(at);return;}
 touches.set(event.pointerId,at[0]);
 if(touches.size>1&&grip[3]){const middle=(grip[1]+grip[2])/2,half=(grip[2]-grip[1])/2*grip[3]/Math.max(spread(),1);
  show(middle-half,middle+half);return;}
 const by=(grip[0]-at[0])*(grip[2]-grip[1])/(canvas.clientWidth-left);
 show(grip[1]+by,grip[2]+by);});
for(const end of ["pointerup","pointercancel"])canvas.addEventListener(end,event=>{touches.delete(event.pointerId);tell(place(event));});
canvas.addEventListener("dblclick",()=>show(0,DATA.cycles));
function act(name){const step=(to-from)/5;
 ({in:()=>zoom(.6),out:()=>zoom(1/.6),left:()=>show(from-step,to-step),right:()=>show(from+step,to+step),
  all:()=>show(0,DATA.cycles)})[name]();}
for(const button of document.querySelectorAll("[data-timeline]"))button.addEventListener("click",()=>act(button.dataset.timeline));
canvas.addEventListener("keydown",event=>{
 const name={ArrowLeft:"left",ArrowRight:"right","+":"in","=":"in","-":"out",Home:"all"}[event.key];
 if(name){event.preventDefault();act(name);}});
for(const row of document.querySelectorAll("tr[data-start]"))row.addEventListener("dblclick",()=>{
 const start=+row.dataset.start,cycles=+row.dataset.cycles;show(start-cycles*.1,start+cycles*1.1);
 canvas.scrollIntoView({block:"center"});});
addEventListener("resize",draw);addEventListener("tosaic-theme",draw);draw();
})();
