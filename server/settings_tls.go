package server

import "spindle/internal/setting"

// tlsSettings are the directives for which crypto/tls has nothing, or whose links are still to come. The others are in
// internal/tlsconfig and in reactor.
type tlsSettings struct {
	cluster, replication setting.Bool
	dh                   setting.String
}

func (s *tlsSettings) rows() []setting.Row {
	links := setting.Nothing("this version opens no TLS links")
	return []setting.Row{
		setting.NewBool("tls-cluster", &s.cluster, false, links),
		setting.NewBool("tls-replication", &s.replication, false, links),
		setting.NewString("tls-dh-params-file", &s.dh, "",
			setting.Nothing("crypto/tls has no finite-field Diffie-Hellman; keys are agreed on by elliptic curves")),
	}
}
