package server

import "spindle/internal/setting"

// tlsSettings are the directives for which crypto/tls has nothing, the others are in
// internal/tlsconfig and in reactor.
type tlsSettings struct {
	dh setting.String
}

func (s *tlsSettings) rows() []setting.Row {
	return []setting.Row{
		setting.NewString("tls-dh-params-file", &s.dh, "",
			setting.Nothing("crypto/tls has no finite-field Diffie-Hellman; keys are agreed on by elliptic curves")),
	}
}
