package s3test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"
)

// authorization has the parts of the header: access key, day, region, service, signed headers, signature.
var authorization = regexp.MustCompile(
	`^AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$`)

// verify checks the signature of a request as S3 does. code is the S3 error code, or "" if there is none.
func verify(r *http.Request, body []byte, now time.Time) (status int, code string) {
	m := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if m == nil {
		return http.StatusForbidden, "AccessDenied"
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	given := r.Header.Get("X-Amz-Content-Sha256")
	sum := sha256.Sum256(body)
	names := strings.Split(m[5], ";")
	switch {
	case m[1] != ID:
		return http.StatusForbidden, "InvalidAccessKeyId"
	case m[3] != Region || m[4] != "s3":
		return http.StatusBadRequest, "AuthorizationHeaderMalformed"
	case err != nil || at.Format("20060102") != m[2]:
		return http.StatusForbidden, "AccessDenied"
	case at.Sub(now).Abs() > 15*time.Minute:
		return http.StatusForbidden, "RequestTimeTooSkewed"
	case given != hex.EncodeToString(sum[:]):
		return http.StatusBadRequest, "XAmzContentSHA256Mismatch"
	case !sort.StringsAreSorted(names) || !slices.Contains(names, "host"):
		return http.StatusForbidden, "AccessDenied"
	}
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") && !slices.Contains(names, name) {
			return http.StatusForbidden, "AccessDenied"
		}
	}
	if signature(r, names, given, Secret, m[2], m[3]) != m[6] {
		return http.StatusForbidden, "SignatureDoesNotMatch"
	}
	return 0, ""
}

// signature computes the right signature of a request.
func signature(r *http.Request, names []string, bodySum, secret, day, region string) string {
	lines := []string{r.Method, uriEncoded(r.URL.Path, "/")}
	var pairs []string
	for name, values := range r.URL.Query() {
		for _, value := range values {
			pairs = append(pairs, uriEncoded(name, "")+"="+uriEncoded(value, ""))
		}
	}
	sort.Strings(pairs)
	lines = append(lines, strings.Join(pairs, "&"))
	for _, name := range names {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		lines = append(lines, name+":"+strings.TrimSpace(value))
	}
	lines = append(lines, "", strings.Join(names, ";"), bodySum)
	canonical := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	scope := strings.Join([]string{day, region, "s3", "aws4_request"}, "/")
	text := strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), scope,
		hex.EncodeToString(canonical[:])}, "\n")
	key := keyed(keyed(keyed(keyed([]byte("AWS4"+secret), day), region), "s3"), "aws4_request")
	return hex.EncodeToString(keyed(key, text))
}

func keyed(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text))
	return h.Sum(nil)
}

// uriEncoded is UriEncode of AWS's page, byte by byte. It also leaves the bytes of plain unchanged.
func uriEncoded(text, plain string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', strings.IndexByte("-._~"+plain, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	return b.String()
}
