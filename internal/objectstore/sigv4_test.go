package objectstore

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSignatures checks the signatures of the examples that AWS has published for S3.
// Source: AWS, "Signature Calculations for the Authorization Header", examples.
func TestSignatures(t *testing.T) {
	c := Credentials{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for _, e := range []struct {
		method, path, query, body string
		header                    map[string]string
		want                      string
	}{
		{"GET", "/test.txt", "", "", map[string]string{"Range": "bytes=0-9"},
			"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"PUT", "/test$file.text", "", "Welcome to Amazon S3.",
			map[string]string{"Date": "Fri, 24 May 2013 00:00:00 GMT", "X-Amz-Storage-Class": "REDUCED_REDUNDANCY"},
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
		{"GET", "/", "lifecycle=", "", nil, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"GET", "/", query(map[string]string{"prefix": "J", "max-keys": "2"}), "", nil,
			"34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		r, err := http.NewRequest(e.method, "https://examplebucket.s3.amazonaws.com"+encode(e.path, true)+"?"+e.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range e.header {
			r.Header.Set(name, value)
		}
		sum := sha256.Sum256([]byte(e.body))
		sign(r, hex.EncodeToString(sum[:]), "us-east-1", c, at)
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+e.want) {
			t.Errorf("%s %s: %s, want %s", e.method, e.path, got, e.want)
		}
		if strings.Contains(strings.Join(r.Header.Values("Authorization"), ""), c.Secret) {
			t.Error("the secret is in the request")
		}
	}
}
