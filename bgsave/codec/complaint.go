package codec

import (
	"errors"

	"spindle/bgsave/rdb"
)

// forms names the packed kinds as in Redis's log messages.
var forms = [rdb.Kinds]string{
	rdb.KindHashZipmap: "Zipmap", rdb.KindHashZiplist: "Hash ziplist", rdb.KindHashListpack: "Hash listpack",
	rdb.KindHashTTLListpack: "Hash listpack", rdb.KindHashTTLPackPre: "Hash listpack",
	rdb.KindZSetZiplist: "Zset ziplist", rdb.KindZSetListpack: "Zset listpack",
	rdb.KindSetIntset: "Intset", rdb.KindSetListpack: "Set listpack",
	rdb.KindListZiplist: "List ziplist", rdb.KindListQuicklist: "Quicklist ziplist",
	rdb.KindListQuicklist2: "Quicklist listpack",
	rdb.KindStream:         "Stream listpack", rdb.KindStream2: "Stream listpack", rdb.KindStream3: "Stream listpack",
	rdb.KindStream4: "Stream listpack", rdb.KindStream5: "Stream listpack",
}

// Packed reports whether values of this kind contain packed bytes that must be checked deeply before use.
func Packed(kind rdb.Kind) bool { return forms[kind] != "" }

// Complaint returns the log message for a refused value, with the words that tools look for. err came from Read or a
// Builder.
func Complaint(kind rdb.Kind, err error) string {
	form := forms[kind]
	var said rdb.Corrupt
	if form == "" || kindOfStream(kind) && errors.As(err, &said) { // the fault is not in the listpack
		return err.Error()
	}
	reason := err.Error()
	if err == errDuplicate {
		reason = form + " with dup elements"
	}
	return form + " integrity check failed: " + reason
}

func kindOfStream(k rdb.Kind) bool {
	switch k {
	case rdb.KindStream, rdb.KindStream2, rdb.KindStream3, rdb.KindStream4, rdb.KindStream5:
		return true
	}
	return false
}
