package hash

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRandomAmongLapsed: HRANDFIELD replies no field past its deadline, also when most fields have lapsed within the
// present tick of the index of deadlines. They are still in the hash then.
func TestRandomAmongLapsed(t *testing.T) {
	const fields, tickMs = 5000, 16 // more fields than HRANDFIELD looks at before it draws
	met := 0
	for _, stay := range []int{0, 10, fields / 2} {
		for _, offset := range []int64{0, tickMs / 2} { // in one of them, no tick begins before the last command
			core := newCore(t)
			cl := core.Client(2)
			core.SetNow(time.Now().UnixMilli() + offset) // ticks count from the start of the process
			set, expire := []string{"HSET", "h"}, []string{"HPEXPIRE", "h", "1", "FIELDS", fmt.Sprint(fields)}
			for i := range fields {
				set, expire = append(set, fmt.Sprint("gone", i), "1"), append(expire, fmt.Sprint("gone", i))
			}
			for i := range stay {
				set = append(set, fmt.Sprint("stays", i), "1")
			}
			core.Do(cl, set...)
			core.Do(cl, expire...)
			core.SetNow(core.Now() + 2)
			if core.Do(cl, "HLEN", "h") == fmt.Sprintf(":%d\r\n", fields+stay) {
				met++
			}
			for _, count := range []int{-300, 300} {
				want := min(count, stay)
				if count < 0 && stay > 0 {
					want = -count
				}
				reply := core.Do(cl, "HRANDFIELD", "h", fmt.Sprint(count))
				if n := strings.Count(reply, "stays"); n != max(want, 0) || strings.Contains(reply, "gone") ||
					!strings.HasPrefix(reply, fmt.Sprintf("*%d\r\n", n)) {
					t.Fatalf("%d fields stay: HRANDFIELD h %d has %d of them, want %d: %.60q", stay, count, n, want, reply)
				}
			}
		}
	}
	if met == 0 {
		t.Error("no field was past its deadline and still in the hash")
	}
}
