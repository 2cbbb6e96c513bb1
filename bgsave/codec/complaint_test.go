package codec

import (
	"testing"

	"spindle/bgsave/rdb"
	"spindle/engine/data/listpack"
)

func TestComplaint(t *testing.T) {
	const said = rdb.Corrupt("two consumers have one name")
	for _, c := range []struct {
		kind rdb.Kind
		err  error
		want string
	}{
		{rdb.KindHashListpack, errOdd, "Hash listpack integrity check failed: " + errOdd.Error()},
		{rdb.KindHashListpack, errDuplicate, "Hash listpack integrity check failed: Hash listpack with dup elements"},
		{rdb.KindZSetZiplist, errScore, "Zset ziplist integrity check failed: " + errScore.Error()},
		{rdb.KindSet, errDuplicate, errDuplicate.Error()},
		{rdb.KindStream3, listpack.ErrSize, "Stream listpack integrity check failed: " + listpack.ErrSize.Error()},
		{rdb.KindStream3, said, said.Error()},
	} {
		if got := Complaint(c.kind, c.err); got != c.want {
			t.Errorf("%s: %q, want %q", c.kind, got, c.want)
		}
	}
}
