package codec

import (
	"errors"

	"spindle/bgsave/rdb"
)

// forms are the kinds that are packed, by the names under which logs have always complained of them.
var forms = [256]string{
	rdb.KindHashZipmap: "Zipmap", rdb.KindHashZiplist: "Hash ziplist", rdb.KindHashListpack: "Hash listpack",
	rdb.KindHashTTLListpack: "Hash listpack", rdb.KindHashTTLPackPre: "Hash listpack",
	rdb.KindZSetZiplist: "Zset ziplist", rdb.KindZSetListpack: "Zset listpack",
	rdb.KindSetIntset: "Intset", rdb.KindSetListpack: "Set listpack",
	rdb.KindListZiplist: "List ziplist", rdb.KindListQuicklist: "Quicklist ziplist",
	rdb.KindListQuicklist2: "Quicklist listpack",
	rdb.KindStream:         "Stream listpack", rdb.KindStream2: "Stream listpack", rdb.KindStream3: "Stream listpack",
}

// Packed says whether values of a kind are, or consist of, what must be proven deep before it can be read.
func Packed(kind rdb.Kind) bool { return forms[kind] != "" }

// Complaint is what the log says of a value that was refused: err, which Read or a Builder returned, in words that
// tools wait for.
func Complaint(kind rdb.Kind, err error) string {
	form := forms[kind]
	var said rdb.Corrupt
	if form == "" || kindOfStream(kind) && errors.As(err, &said) { // then it is not the listpack
		return err.Error()
	}
	reason := err.Error()
	if err == errDuplicate {
		reason = form + " with dup elements"
	}
	return form + " integrity check failed: " + reason
}

func kindOfStream(k rdb.Kind) bool {
	return k == rdb.KindStream || k == rdb.KindStream2 || k == rdb.KindStream3
}
