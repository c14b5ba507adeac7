from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from tests.chaos.site import Pool
import time
import psutil

def cpu(site):
    rows={}
    for c in site.children._all:
        try:
            p=psutil.Process(c.process.pid); t=p.cpu_times(); rows[c.name]=(round(t.user+t.system,1), round(t.children_user+t.children_system,1))
        except psutil.Error: pass
    for n,p in (("nursery",site.workers._nursery.pid),("proxies",site.proxies._process.pid)):
        t=psutil.Process(p).cpu_times(); rows[n]=round(t.user+t.system,1)
    for w in site.workers._all:
        try:
            t=w.process.cpu_times(); rows[w.name]=round(t.user+t.system,1)
        except psutil.Error: pass
    return rows

def test_ten(pool: Pool) -> None:
    print(cpu(pool.site))
    t=time.time()
    w=pool.worker()
    w.wait_ready(); print("ready", time.time()-t)
    print(cpu(pool.site))
    t=time.time()
    run=pool.start()
    pool.settle(90)
    print("one", time.time()-t)
    print(cpu(pool.site))
    t=time.time()
    for _ in range(10): pool.start()
    pool.settle(90)
    print("ten", time.time()-t)
    print(cpu(pool.site))
