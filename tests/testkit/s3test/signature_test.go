package s3test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestExamples: the server computes the signatures of AWS's published examples.
// Source: AWS, "Signature Calculations for the Authorization Header", examples.
func TestExamples(t *testing.T) {
	const host = "examplebucket.s3.amazonaws.com"
	for _, e := range []struct {
		method, url, body, names string
		header                   map[string]string
		want                     string
	}{
		{"GET", "/test.txt", "", "host;range;x-amz-content-sha256;x-amz-date", map[string]string{"Range": "bytes=0-9"},
			"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"PUT", "/test%24file.text", "Welcome to Amazon S3.", "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
			map[string]string{"Date": "Fri, 24 May 2013 00:00:00 GMT", "X-Amz-Storage-Class": "REDUCED_REDUNDANCY"},
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
		{"GET", "/?lifecycle", "", "host;x-amz-content-sha256;x-amz-date", nil,
			"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"GET", "/?max-keys=2&prefix=J", "", "host;x-amz-content-sha256;x-amz-date", nil,
			"34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		sum := sha256.Sum256([]byte(e.body))
		r := &http.Request{Method: e.method, URL: parsed("https://" + host + e.url), Host: host, Header: http.Header{}}
		r.Header.Set("X-Amz-Date", "20130524T000000Z")
		r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
		for name, value := range e.header {
			r.Header.Set(name, value)
		}
		got := signature(r, strings.Split(e.names, ";"), hex.EncodeToString(sum[:]),
			"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "20130524", "us-east-1")
		if got != e.want {
			t.Errorf("%s %s: %s, want %s", e.method, e.url, got, e.want)
		}
	}
}

// parsed parses a constant URL.
func parsed(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}
