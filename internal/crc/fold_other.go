//go:build !amd64

package crc

const (
	hasFold   = false
	foldMin   = 0
	foldBlock = 1
)

func updateFold(crc uint64, p []byte) uint64 { return updateTables(crc, p) }
