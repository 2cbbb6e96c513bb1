package server

import "spindle/internal/setting"

// tlsSettings belong to the reactor's TLS listeners, which are still to come.
type tlsSettings struct {
	port, cacheSize, cacheTimeout, accepts                             setting.Int
	cluster, replication, preferServer, caching                        setting.Bool
	auth                                                               setting.Enum[int]
	cert, key, keyPass, clientCert, clientKey, clientPass, dh, ca, dir setting.String
	protocols, ciphers, suites                                         setting.String
}

const noTLS = "TLS is not there yet"

func (s *tlsSettings) rows() []setting.Row {
	none := setting.Nothing(noTLS)
	return []setting.Row{
		setting.NewInt("tls-port", &s.port, 0, setting.Between(0, maxPort), none),
		setting.NewInt("max-new-tls-connections-per-cycle", &s.accepts, 1, setting.Between(1, 1000), none),
		setting.NewInt("tls-session-cache-size", &s.cacheSize, 20480, setting.Between(0, maxInt), none),
		setting.NewInt("tls-session-cache-timeout", &s.cacheTimeout, 300, setting.Between(0, maxInt), none),
		setting.NewBool("tls-session-caching", &s.caching, true, none),
		setting.NewBool("tls-cluster", &s.cluster, false, none),
		setting.NewBool("tls-replication", &s.replication, false, none),
		setting.NewEnum("tls-auth-clients", &s.auth, 1, []setting.Choice[int]{{Name: "no", Value: 0}, {Name: "yes", Value: 1}, {Name: "optional", Value: 2}}, none),
		setting.NewBool("tls-prefer-server-ciphers", &s.preferServer, false, none),
		setting.NewString("tls-cert-file", &s.cert, "", setting.Volatile, none),
		setting.NewString("tls-key-file", &s.key, "", setting.Volatile, none),
		setting.NewString("tls-key-file-pass", &s.keyPass, "", setting.Sensitive, none),
		setting.NewString("tls-client-cert-file", &s.clientCert, "", setting.Volatile, none),
		setting.NewString("tls-client-key-file", &s.clientKey, "", setting.Volatile, none),
		setting.NewString("tls-client-key-file-pass", &s.clientPass, "", setting.Sensitive, none),
		setting.NewString("tls-dh-params-file", &s.dh, "", setting.Volatile, none),
		setting.NewString("tls-ca-cert-file", &s.ca, "", setting.Volatile, none),
		setting.NewString("tls-ca-cert-dir", &s.dir, "", setting.Volatile, none),
		setting.NewString("tls-protocols", &s.protocols, "", none),
		setting.NewString("tls-ciphers", &s.ciphers, "", none),
		setting.NewString("tls-ciphersuites", &s.suites, "", none),
	}
}
