(function(){
const root=document.documentElement,prefers=matchMedia("(prefers-color-scheme: dark)");
function dark(){return root.dataset.theme?root.dataset.theme==="dark":prefers.matches;}
function turn(){
 root.dataset.theme=dark()?"light":"dark";
 try{localStorage.setItem("tosaic-theme",root.dataset.theme);}catch{}
 dispatchEvent(new Event("tosaic-theme"));}
document.getElementById("theme").addEventListener("click",turn);
prefers.addEventListener("change",()=>dispatchEvent(new Event("tosaic-theme")));

const parts=[...document.querySelectorAll("main h2[id]")];
document.querySelector("nav").append(...parts.map(part=>{
 const link=document.createElement("a");link.href="#"+part.id;link.textContent=part.textContent;return link;}));

function value(row,column){
 const cell=row.cells[column],text=cell.dataset.value??cell.textContent.trim();
 return cell.classList.contains("n")?(text===""?-Infinity:Number(text)):text.toLowerCase();}
function sort(table,column){
 const head=table.tHead.rows[0].cells[column],body=table.tBodies[0];
 const first=head.classList.contains("n")?"descending":"ascending";
 const other=first==="ascending"?"descending":"ascending";
 const order=head.getAttribute("aria-sort")===first?other:first;
 for(const each of table.tHead.rows[0].cells)each.removeAttribute("aria-sort");
 head.setAttribute("aria-sort",order);
 const sign=order==="ascending"?1:-1;
 const keyed=[...body.rows].map((row,place)=>[value(row,column),place,row]);
 keyed.sort(([a,i],[b,j])=>(a<b?-sign:a>b?sign:i-j));
 body.append(...keyed.map(([,,row])=>row));}
for(const table of document.querySelectorAll("table.sortable"))
 [...table.tHead.rows[0].cells].forEach((cell,column)=>
  cell.querySelector("button")?.addEventListener("click",()=>sort(table,column)));

const searches=[...document.querySelectorAll("input[type=search]")];
for(const field of searches)field.addEventListener("input",()=>{
 const wanted=field.value.toLowerCase().split(/\s+/);
 for(const row of document.getElementById(field.dataset.table).tBodies[0].rows){
  const text=row.textContent.toLowerCase();
  row.hidden=!wanted.every(word=>text.includes(word));}});

addEventListener("keydown",event=>{
 if(event.ctrlKey||event.metaKey||event.altKey||event.target.matches("input,textarea,select")){
  if(event.key==="Escape")event.target.blur();
  return;}
 if(event.key==="t")turn();
 else if(event.key==="/"&&searches.length){event.preventDefault();searches[0].focus();}
 else if(event.key>="1"&&event.key<="9")parts[event.key-1]?.scrollIntoView();});
})();
