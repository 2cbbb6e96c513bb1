package server

import "spindle/internal/setting"

// tlsSettings are the directives for which crypto/tls has nothing, or whose feature is still to come. The others are in
// internal/tlsconfig and in reactor.
type tlsSettings struct {
	cluster setting.Bool
	dh      setting.String
}

func (s *tlsSettings) rows() []setting.Row {
	return []setting.Row{
		setting.NewBool("tls-cluster", &s.cluster, false, setting.Nothing("this version knows no other nodes")),
		setting.NewString("tls-dh-params-file", &s.dh, "",
			setting.Nothing("crypto/tls has no finite-field Diffie-Hellman; keys are agreed on by elliptic curves")),
	}
}
