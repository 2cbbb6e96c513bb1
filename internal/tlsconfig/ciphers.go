package tlsconfig

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A cipherInfo describes a suite up to TLS 1.2 that crypto/tls has, in the terms of OpenSSL's cipher lists.
type cipherInfo struct {
	id        uint16
	name      string // OpenSSL's
	words     string // the words that select it, separated by blanks
	ephemeral bool   // ECDHE
	signs     int    // if ephemeral: the kind of key that signs
	since     uint16
	bits      int
	unnamed   bool // not in DEFAULT
}

// ciphers has the suites in DEFAULT's order of preference.
var ciphers = []cipherInfo{
	{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384",
		"ecdsa AES256 AES AESGCM AEAD HIGH", true, ecdsaKey, tls.VersionTLS12, 256, false},
	{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384",
		"rsa AES256 AES AESGCM AEAD HIGH", true, rsaKey, tls.VersionTLS12, 256, false},
	{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305",
		"ecdsa CHACHA20 AEAD HIGH", true, ecdsaKey, tls.VersionTLS12, 256, false},
	{tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305",
		"rsa CHACHA20 AEAD HIGH", true, rsaKey, tls.VersionTLS12, 256, false},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256",
		"ecdsa AES128 AES AESGCM AEAD HIGH", true, ecdsaKey, tls.VersionTLS12, 128, false},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256",
		"rsa AES128 AES AESGCM AEAD HIGH", true, rsaKey, tls.VersionTLS12, 128, false},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256, "ECDHE-ECDSA-AES128-SHA256",
		"ecdsa AES128 AES SHA256 HIGH", true, ecdsaKey, tls.VersionTLS12, 128, false},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256, "ECDHE-RSA-AES128-SHA256",
		"rsa AES128 AES SHA256 HIGH", true, rsaKey, tls.VersionTLS12, 128, false},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, "ECDHE-ECDSA-AES256-SHA",
		"ecdsa AES256 AES SHA1 SHA HIGH", true, ecdsaKey, tls.VersionTLS10, 256, false},
	{tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, "ECDHE-RSA-AES256-SHA",
		"rsa AES256 AES SHA1 SHA HIGH", true, rsaKey, tls.VersionTLS10, 256, false},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, "ECDHE-ECDSA-AES128-SHA",
		"ecdsa AES128 AES SHA1 SHA HIGH", true, ecdsaKey, tls.VersionTLS10, 128, false},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, "ECDHE-RSA-AES128-SHA",
		"rsa AES128 AES SHA1 SHA HIGH", true, rsaKey, tls.VersionTLS10, 128, false},
	{tls.TLS_RSA_WITH_AES_256_GCM_SHA384, "AES256-GCM-SHA384", "AES256 AES AESGCM AEAD HIGH", false, rsaKey,
		tls.VersionTLS12, 256, false},
	{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, "AES128-GCM-SHA256", "AES128 AES AESGCM AEAD HIGH", false, rsaKey,
		tls.VersionTLS12, 128, false},
	{tls.TLS_RSA_WITH_AES_128_CBC_SHA256, "AES128-SHA256", "AES128 AES SHA256 HIGH", false, rsaKey,
		tls.VersionTLS12, 128, false},
	{tls.TLS_RSA_WITH_AES_256_CBC_SHA, "AES256-SHA", "AES256 AES SHA1 SHA HIGH", false, rsaKey,
		tls.VersionTLS10, 256, false},
	{tls.TLS_RSA_WITH_AES_128_CBC_SHA, "AES128-SHA", "AES128 AES SHA1 SHA HIGH", false, rsaKey,
		tls.VersionTLS10, 128, false},
	{tls.TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA, "ECDHE-RSA-DES-CBC3-SHA",
		"rsa 3DES SHA1 SHA MEDIUM", true, rsaKey, tls.VersionTLS10, 112, true},
	{tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA, "DES-CBC3-SHA", "3DES SHA1 SHA MEDIUM", false, rsaKey,
		tls.VersionTLS10, 112, true},
}

// cipherByID returns nil for suites that are not in ciphers.
func cipherByID(id uint16) *cipherInfo {
	i := slices.IndexFunc(ciphers, func(c cipherInfo) bool { return c.id == id })
	if i < 0 {
		return nil
	}
	return &ciphers[i]
}

// matches reports whether word, one part of words joined by +, selects c.
func (c *cipherInfo) matches(word string) bool {
	ecdsa := c.ephemeral && c.signs == ecdsaKey
	switch word {
	case "ALL":
		return true
	case "TLSv1.2":
		return c.since == tls.VersionTLS12
	case "TLSv1", "TLSv1.0", "SSLv3":
		return c.since < tls.VersionTLS12
	case "DEFAULT":
		return !c.unnamed
	case "COMPLEMENTOFDEFAULT":
		return c.unnamed
	case "ECDHE", "EECDH", "kECDHE", "kEECDH":
		return c.ephemeral
	case "aRSA":
		return !ecdsa
	case "RSA", "kRSA":
		return !c.ephemeral
	case "ECDSA", "aECDSA":
		return ecdsa
	}
	return word == c.name || slices.Contains(strings.Fields(c.words), word)
}

// parseCiphers reads tls-ciphers, a cipher list in OpenSSL's language. Names that crypto/tls does not have select
// nothing, as unknown names do in OpenSSL.
//
// Shape: the suites in order of preference; for an empty text, the suites that crypto/tls considers secure.
// Source: ciphers(1), of OpenSSL 3.
func parseCiphers(text string) ([]uint16, error) {
	if text == "" {
		return defaultCiphers(), nil
	}
	refused := fmt.Errorf("Failed to configure ciphers: %s", text)
	active, gone := []*cipherInfo{}, map[*cipherInfo]bool{}
	for n, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(": ,;", r) }) {
		if level, isLevel := strings.CutPrefix(word, "@SECLEVEL="); isLevel {
			if len(level) != 1 || level[0] < '0' || level[0] > '5' {
				return nil, refused
			}
			continue // crypto/tls has its own bounds
		}
		if word == "@STRENGTH" {
			slices.SortStableFunc(active, func(a, b *cipherInfo) int { return b.bits - a.bits })
			continue
		}
		if word[0] == '@' {
			return nil, refused
		}
		if n > 0 && word == "DEFAULT" { // it only has a meaning as the first word
			continue
		}
		active = apply(active, gone, word)
	}
	if len(active) == 0 {
		return nil, refused
	}
	ids := make([]uint16, len(active))
	for i, c := range active {
		ids[i] = c.id
	}
	return ids, nil
}

// apply applies one word of a list to the active suites, and to those that are removed for good.
func apply(active []*cipherInfo, gone map[*cipherInfo]bool, word string) []*cipherInfo {
	operation := word[0]
	if strings.IndexByte("!-+", operation) >= 0 {
		word = word[1:]
	} else {
		operation = 0
	}
	selects := func(c *cipherInfo) bool {
		for part := range strings.SplitSeq(word, "+") {
			if !c.matches(part) {
				return false
			}
		}
		return true
	}
	switch operation {
	case '!', '-':
		for i := range ciphers {
			if operation == '!' && selects(&ciphers[i]) {
				gone[&ciphers[i]] = true
			}
		}
		return slices.DeleteFunc(active, selects)
	case '+': // to the end
		var first, last []*cipherInfo
		for _, c := range active {
			if selects(c) {
				last = append(last, c)
			} else {
				first = append(first, c)
			}
		}
		return append(first, last...)
	}
	for i := range ciphers {
		if c := &ciphers[i]; selects(c) && !gone[c] && !slices.Contains(active, c) {
			active = append(active, c)
		}
	}
	return active
}

// defaultCiphers returns the suites that crypto/tls considers secure, in the order of ciphers.
func defaultCiphers() (ids []uint16) {
	for _, c := range ciphers {
		secure := slices.ContainsFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.ID == c.id })
		if secure {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// suites13 are the suites of TLS 1.3 in crypto/tls, which cannot disable any of them.
var suites13 = []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}

var errSuites13 = errors.New("tls-ciphersuites: crypto/tls always offers " + strings.Join(suites13, ", ") +
	" in its own order. A list that leaves one of them out cannot take effect.")

// checkSuites13 refuses a tls-ciphersuites that would not take effect.
func checkSuites13(text string) error {
	if text == "" {
		return nil
	}
	named := strings.Split(text, ":")
	for _, name := range named {
		known := slices.Contains(suites13, name) || name == "TLS_AES_128_CCM_SHA256" || name == "TLS_AES_128_CCM_8_SHA256"
		if !known {
			return fmt.Errorf("Failed to configure ciphersuites: %s", text)
		}
	}
	for _, name := range suites13 {
		if !slices.Contains(named, name) {
			return errSuites13
		}
	}
	return nil
}
