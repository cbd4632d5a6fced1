const fib=n=>n<2?n:fib(n-1)+fib(n-2); console.log(fib(25)); console.log([1,2,3].map(x=>x*x), JSON.stringify({a:/x+/.exec('yxxz')[0]}));
const {Worker,isMainThread}=require('worker_threads'); const zlib=require('zlib'),crypto=require('crypto'); console.log(zlib.gzipSync('x'.repeat(10000)).length, crypto.createHash('sha256').update('a').digest('hex'));
if(isMainThread){ const w=new Worker(`require('worker_threads').parentPort.postMessage(42)`,{eval:true}); w.on('message',m=>{console.log(m)}); }
try { null.x } catch(e){ console.log(e.message) }
