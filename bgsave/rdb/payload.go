package rdb

import (
	"encoding/binary"
	"errors"
	"io"

	"spindle/internal/crc"
)

// A payload is DUMP's reply and RESTORE's argument: one value without its key, with a footer that detects damage.
//
//	kind value… | version u16 LE | crc64 u64 LE      the sum covers everything before it
//
// FooterLen is the footer's length.
const FooterLen = 2 + 8

// ErrPayload means that the payload's version is too new or its checksum is wrong. ErrPayloadData means that its value
// is invalid.
var (
	ErrPayload     = errors.New("DUMP payload version or checksum are wrong")
	ErrPayloadData = errors.New("Bad data format")
)

// AppendFooter ends the payload that begins at dst[from].
func AppendFooter(dst []byte, from, version int) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(version))
	return binary.LittleEndian.AppendUint64(dst, crc.Update64(0, dst[from:]))
}

// Payload checks a payload's footer and returns its kind and value. A hash with a template is returned as KindHash.
// Errors: ErrPayload; ErrPayloadData for an unknown kind, or one that only files have.
func Payload(p []byte, c Check) (kind Kind, value []byte, err error) {
	body, version, err := c.unwrap(p)
	if err != nil {
		return 0, nil, err
	}
	rest, meta := withoutMeta(body, version)
	if len(rest) == 0 || meta && !c.SkipMeta {
		return 0, nil, ErrPayloadData
	}
	kind, value = DialectOf(version).Of(rest[0]), rest[1:]
	switch kind {
	case KindTmplPackedRef, KindTmplRef:
		return 0, nil, ErrPayloadData // the template is in the file from which the payload came
	case KindTmplPacked, KindTmpl:
		if value, err = plainHash(nil, kind, value, nil); err != nil {
			return 0, nil, ErrPayloadData
		}
		return KindHash, value, nil
	}
	if !kind.Known() {
		return 0, nil, ErrPayloadData
	}
	return kind, value, nil
}

// A Check says which parts of a payload's footer are checked.
type Check struct {
	AnySum  bool // do not check the checksum
	Relaxed bool // do not check that the version is known (rdb-version-check relaxed)

	SkipMeta bool // skip the metadata of modules; otherwise such a payload is refused
}

// withoutMeta returns a payload's body without the metadata that modules keep for the key. meta reports whether there
// was some.
func withoutMeta(body []byte, version int) (rest []byte, meta bool) {
	if len(body) == 0 || Op(body[0]) != OpKeyMeta || DialectOf(version) != Redis {
		return body, false
	}
	c := cursor{p: body, i: 1}
	if skipKeyMeta(&c) != nil {
		return nil, true
	}
	return body[c.i:], true
}

// Unwrap checks a payload's footer and returns the bytes before it.
// Errors: ErrPayload.
func Unwrap(p []byte, c Check) (body []byte, err error) {
	body, _, err = c.unwrap(p)
	return body, err
}

func (c Check) unwrap(p []byte) (body []byte, version int, err error) {
	if len(p) < FooterLen {
		return nil, 0, ErrPayload
	}
	footer := p[len(p)-FooterLen:]
	version = int(binary.LittleEndian.Uint16(footer))
	if version != 0 && !c.Relaxed && !DialectOf(version).understood(version) {
		return nil, 0, ErrPayload
	}
	sum := binary.LittleEndian.Uint64(footer[2:])
	none := sum == 0 && DialectOf(version) == Redis && version >= noSumSince
	if !c.AnySum && !none && crc.Update64(0, p[:len(p)-8]) != sum {
		return nil, 0, ErrPayload
	}
	return p[:len(p)-FooterLen], version, nil
}

// noSumSince is the first version in which a checksum of 0 means no checksum. The stream of Redis 8.10 has such
// payloads for hashes with templates. Source: one independent reader, checked with that server; nothing else confirms
// it.
const noSumSince = 15

// Restamp gives p another version, of Redis, that has p's kind. It returns a part of p, which it overwrites. A wrong
// checksum stays wrong.
func Restamp(p []byte, version int) []byte {
	body, footer := PayloadBody(p), p[len(p)-FooterLen:]
	if len(body)+FooterLen < len(p) || binary.LittleEndian.Uint64(footer[2:]) == 0 {
		return AppendFooter(body, 0, version)
	}
	setVersion(footer, version)
	return p
}

// setVersion changes the version in a footer. It corrects the checksum by the checksum of the difference, so it need
// not read the value.
func setVersion(footer []byte, version int) {
	difference := binary.LittleEndian.AppendUint16(nil, binary.LittleEndian.Uint16(footer)^uint16(version))
	sum := binary.LittleEndian.Uint64(footer[2:]) ^ crc.Update64(0, difference)
	binary.LittleEndian.PutUint16(footer, uint16(version))
	binary.LittleEndian.PutUint64(footer[2:], sum)
}

// PayloadVersion returns the version in a payload's footer, or 0 for a payload that is too short.
func PayloadVersion(p []byte) int {
	if len(p) < FooterLen {
		return 0
	}
	return int(binary.LittleEndian.Uint16(p[len(p)-FooterLen:]))
}

// PayloadBody returns a payload's kind and value, without its footer and the metadata of modules.
func PayloadBody(p []byte) []byte {
	body, _ := withoutMeta(p[:max(0, len(p)-FooterLen)], PayloadVersion(p))
	return body
}

// KindOf returns the kind of a payload's value. ok is false if the payload has none.
func KindOf(p []byte) (kind Kind, ok bool) {
	body := PayloadBody(p)
	if len(body) == 0 {
		return 0, false
	}
	kind = DialectOf(PayloadVersion(p)).Of(body[0])
	return kind, kind.Known()
}

// StringValue reads a KindString value. rest is the part of p after the value.
// Errors: ErrPayloadData, and io.ErrUnexpectedEOF for a value that ends too early.
func StringValue(p []byte) (t Text, rest []byte, err error) {
	c := cursor{p: p}
	t, err = c.text()
	switch {
	case err == errShort:
		return t, nil, io.ErrUnexpectedEOF
	case err != nil:
		return t, nil, ErrPayloadData
	}
	return t, p[c.i:], nil
}
