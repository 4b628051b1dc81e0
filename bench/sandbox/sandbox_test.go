package sandbox

import (
	"fmt"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	p, err := New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(p.path, p.place, p.Unlimited())
	for _, s := range []string{"x=1", "x=2", "import sys; sys.exit(0)", "import os; os._exit(0)", "while 1: pass", "x=[0]*10**9", "import os\nwhile 1:\n  try: os.fork()\n  except OSError: x=1; break",
		"open('/tmp/zz','w')", "open('a','w').write('1'*100); x=1", "x=1 if open('/etc/passwd').read() else 2",
		"import threading; threading.Thread(target=print).start(); x=1",
		"import socket\ns=socket.create_connection(('127.0.0.1',22))",
		"import os\ni=0\nwhile 1:\n  os.mkdir('d'); os.chdir('d')",
		"import time; time.sleep(100)",
		"import os\nfor i in range(1000):\n  f=open(str(i),'wb'); f.write(b'x'*(15<<20)); f.close()",
	} {
		b := time.Now()
		ok, err := p.Run(t.Context(), []string{s}, "assert x==1")
		fmt.Println(ok, err, time.Since(b), s)
	}
}
