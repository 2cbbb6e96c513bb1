package objectstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Credentials are the access key of a store. Keys that are valid for only some hours come with a Token.
type Credentials struct{ ID, Secret, Token string }

const (
	amzTime = "20060102T150405Z"
	amzDay  = "20060102"
)

// sign adds the headers of AWS Signature Version 4 to a request whose body has this SHA-256 in hex. It signs all
// headers that the request already has. The path of r.URL must be encoded by encode.
//
// Source: AWS, "Signature Calculations for the Authorization Header" of Amazon S3.
func sign(r *http.Request, bodySHA256, region string, c Credentials, at time.Time) {
	at = at.UTC()
	r.Header.Set("X-Amz-Date", at.Format(amzTime))
	r.Header.Set("X-Amz-Content-Sha256", bodySHA256)
	if c.Token != "" {
		r.Header.Set("X-Amz-Security-Token", c.Token)
	}
	names := []string{"host"}
	for name := range r.Header {
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(names)
	var text strings.Builder
	text.WriteString(r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n")
	for _, name := range names {
		value := r.URL.Host
		if name != "host" {
			value = strings.Join(r.Header.Values(name), ",")
		}
		text.WriteString(name + ":" + strings.Join(strings.Fields(value), " ") + "\n")
	}
	signed := strings.Join(names, ";")
	text.WriteString("\n" + signed + "\n" + bodySHA256)
	scope := at.Format(amzDay) + "/" + region + "/s3/aws4_request"
	whole := sha256.Sum256([]byte(text.String()))
	what := "AWS4-HMAC-SHA256\n" + at.Format(amzTime) + "\n" + scope + "\n" + hex.EncodeToString(whole[:])
	key := []byte("AWS4" + c.Secret)
	for _, part := range []string{at.Format(amzDay), region, "s3", "aws4_request", what} {
		sum := hmac.New(sha256.New, key)
		sum.Write([]byte(part))
		key = sum.Sum(nil)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.ID+"/"+scope+",SignedHeaders="+signed+
		",Signature="+hex.EncodeToString(key))
}

// encode encodes text for signed requests: everything but letters, digits and "-._~" becomes %XX. A path keeps its "/".
func encode(text string, path bool) string {
	encoded := strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
	if path {
		encoded = strings.ReplaceAll(encoded, "%2F", "/")
	}
	return encoded
}

// query makes a query of names and values, sorted by name and encoded by encode.
func query(pairs map[string]string) string {
	var all []string
	for name, value := range pairs {
		all = append(all, encode(name, false)+"="+encode(value, false))
	}
	slices.Sort(all)
	return strings.Join(all, "&")
}
