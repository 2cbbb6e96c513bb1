package keys

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errNXWithOthers = &protocol.Error{Code: "ERR",
		Text: "NX and XX, GT or LT options at the same time are not compatible"}
	errGTWithLT      = &protocol.Error{Code: "ERR", Text: "GT and LT options at the same time are not compatible"}
	errFirstDB       = &protocol.Error{Code: "ERR", Text: "invalid first DB index"}
	errSecondDB      = &protocol.Error{Code: "ERR", Text: "invalid second DB index"}
	errSwapInCluster = &protocol.Error{Code: "ERR", Text: "SWAPDB is not allowed in cluster mode"}
	errNotLRU        = &protocol.Error{Code: "ERR",
		Text: "An LFU maxmemory policy is selected, idle time not tracked. Please note that when " +
			"switching between policies at runtime LRU and LFU data will take some time to adjust."}
	errNotLFU = &protocol.Error{Code: "ERR",
		Text: "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when " +
			"switching between policies at runtime LRU and LFU data will take some time to adjust."}
	errSameObject    = &protocol.Error{Code: "ERR", Text: "source and destination objects are the same"}
	errMoveInCluster = &protocol.Error{Code: "ERR", Text: "MOVE is not allowed in cluster mode"}
	errCopyInCluster = &protocol.Error{Code: "ERR", Text: "Copying to another database is not allowed in cluster mode"}
	errSortBy        = &protocol.Error{Code: "ERR",
		Text: "BY option of SORT denied due to insufficient ACL permissions."}
	errSortGet = &protocol.Error{Code: "ERR",
		Text: "GET option of SORT denied due to insufficient ACL permissions."}
	errSortByInCluster = &protocol.Error{Code: "ERR",
		Text: "BY option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots."}
	errSortGetInCluster = &protocol.Error{Code: "ERR",
		Text: "GET option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots."}
	errNotDouble = &protocol.Error{Code: "ERR", Text: "One or more scores can't be converted into double"}
)

func errExpireTime(command string) error {
	return protocol.Errorf("ERR", "invalid expire time in '%s' command", command)
}

func errUnsupported(option []byte) error {
	return protocol.Errorf("ERR", "Unsupported option %s", option)
}
