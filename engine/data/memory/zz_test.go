package memory
import ("testing";"time";"syscall";"unsafe")
func cpu() time.Duration { var ts syscall.Timespec; syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 3, uintptr(unsafe.Pointer(&ts)), 0); return time.Duration(ts.Nano()) }
func TestFaultCost(t *testing.T) {
	h := newHeap(t, Options{})
	r := h.Alloc(256<<20, Values)
	var worst, sum time.Duration
	for i := 0; i < 256<<20; i += osPage {
		b := cpu()
		*Word(r+Ref(i)) = 1
		d := cpu()-b
		sum += d
		if d > worst { worst = d }
	}
	t.Log("worst", worst, "sum", sum, "per 2MB", sum/128)
}
