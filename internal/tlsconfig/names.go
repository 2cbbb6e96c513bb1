package tlsconfig

import (
	"crypto/x509"
	"encoding/asn1"
	"slices"
)

var (
	commonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
	otherNames   = asn1.ObjectIdentifier{2, 5, 29, 17} // the extension "subject alternative name"
	uriOtherName = 6                                   // its tag for a URI
)

// Names returns the names of ACL users that a client's certificate offers by tls-auth-clients-user: its first common
// name, or its URIs in order. Without a verified certificate there are none.
//
// A name is the whole text of its field, also past a zero byte. A name with a zero byte belongs to no user.
func (s *Settings) Names(certificate *x509.Certificate) (names []string) {
	if certificate == nil {
		return nil
	}
	switch s.User.Get() {
	case UserCN:
		for _, n := range certificate.Subject.Names {
			if text, is := n.Value.(string); is && n.Type.Equal(commonName) {
				names = append(names, text)
				break
			}
		}
	case UserURI:
		names = uris(certificate)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// uris returns the URIs of a certificate's other names exactly as in the certificate. A url.URL would change some of
// them.
func uris(certificate *x509.Certificate) (all []string) {
	for _, e := range certificate.Extensions {
		if !e.Id.Equal(otherNames) {
			continue
		}
		var list []asn1.RawValue
		if rest, err := asn1.Unmarshal(e.Value, &list); err != nil || len(rest) > 0 {
			return nil
		}
		for _, n := range list {
			if n.Class == asn1.ClassContextSpecific && n.Tag == uriOtherName {
				all = append(all, string(n.Bytes))
			}
		}
	}
	return all
}
