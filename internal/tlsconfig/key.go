package tlsconfig

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"os"
	"slices"
	"strings"

	"spindle/internal/reason"
)

// loadPair reads a certificate, its chain to the authority, and its key.
func loadPair(certFile, keyFile, pass string) (pair tls.Certificate, err error) {
	text, err := os.ReadFile(certFile)
	if err == nil {
		pair.Certificate, pair.Leaf, err = parseChain(text)
	}
	if err != nil {
		return pair, fmt.Errorf("Failed to load certificate: %s: %s", certFile, reason.InContext(err))
	}
	text, err = os.ReadFile(keyFile)
	if err == nil {
		pair.PrivateKey, err = parseKey(text, pass)
	}
	if err == nil && !belongs(pair.PrivateKey, pair.Leaf) {
		err = errors.New("the key is not the certificate's")
	}
	if err != nil {
		return pair, fmt.Errorf("Failed to load private key: %s: %s", keyFile, reason.InContext(err))
	}
	return pair, nil
}

func parseChain(text []byte) (chain [][]byte, leaf *x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type == "CERTIFICATE" || block.Type == "TRUSTED CERTIFICATE" {
			chain = append(chain, block.Bytes)
		}
	}
	if len(chain) == 0 {
		return nil, nil, errors.New("no certificate in it")
	}
	leaf, err = x509.ParseCertificate(chain[0])
	return chain, leaf, err
}

// belongs reports whether key is the certificate's key.
func belongs(key crypto.PrivateKey, leaf *x509.Certificate) bool {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return false
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(leaf.PublicKey)
}

var (
	errPassword = errors.New("the password is wrong, or none is set")
	errNoKeyIn  = errors.New("no private key in it")
)

// parseKey finds the first private key in text and decrypts it if it is encrypted.
func parseKey(text []byte, pass string) (crypto.PrivateKey, error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errNoKeyIn
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		der := block.Bytes
		var err error
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY":
			der, err = decryptPKCS8(der, pass)
		case x509.IsEncryptedPEMBlock(block): //nolint:staticcheck // weak, but what older tools have written
			if der, err = x509.DecryptPEMBlock(block, []byte(pass)); err != nil { //nolint:staticcheck
				err = errPassword
			}
		}
		if err != nil {
			return nil, err
		}
		return parseDER(der)
	}
}

// parseDER reads a key in any of its three forms.
func parseDER(der []byte) (crypto.PrivateKey, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	return nil, errors.New("the private key is of no kind that crypto/tls knows")
}

// The parts of an encrypted key, named as in RFC 8018 (PKCS #5).
type (
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2 struct {
		Derivation, Encryption pkix.AlgorithmIdentifier
	}
	pbkdf2Parameters struct {
		Salt       []byte
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}

	hashes = []struct {
		oid asn1.ObjectIdentifier
		new func() hash.Hash
	}{
		{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 7}, sha1.New},
		{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}, sha256.New},
		{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 10}, sha512.New384},
		{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 11}, sha512.New},
	}
	blockCiphers = []struct {
		oid asn1.ObjectIdentifier
		key int // bytes
		new func([]byte) (cipher.Block, error)
	}{
		{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 2}, 16, aes.NewCipher},
		{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 22}, 24, aes.NewCipher},
		{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, 32, aes.NewCipher},
		{asn1.ObjectIdentifier{1, 2, 840, 113549, 3, 7}, 24, des.NewTripleDESCipher},
	}
)

// iterationsMost bounds the work that a key file can demand. Each iteration is two hashes.
const iterationsMost = 10_000_000

// decryptPKCS8 decrypts a key with PBES2, PBKDF2 and a block cipher in CBC mode, as openssl(1) writes it.
//
// Errors: errPassword; or the name of an unsupported algorithm.
// Source: RFC 8018.
func decryptPKCS8(der []byte, pass string) ([]byte, error) {
	var key encryptedKey
	var scheme pbes2
	var derivation pbkdf2Parameters
	var iv []byte
	malformed := errors.New("the encrypted private key is malformed")
	if _, err := asn1.Unmarshal(der, &key); err != nil {
		return nil, malformed
	}
	if !key.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, fmt.Errorf("the private key is encrypted by %v, and only PBES2 is known", key.Algorithm.Algorithm)
	}
	if _, err := asn1.Unmarshal(key.Algorithm.Parameters.FullBytes, &scheme); err != nil {
		return nil, malformed
	}
	if !scheme.Derivation.Algorithm.Equal(oidPBKDF2) {
		return nil, fmt.Errorf("the private key's password goes through %v, and only PBKDF2 is known",
			scheme.Derivation.Algorithm)
	}
	if _, err := asn1.Unmarshal(scheme.Derivation.Parameters.FullBytes, &derivation); err != nil {
		return nil, malformed
	}
	newHash := sha1.New
	if prf := derivation.PRF.Algorithm; len(prf) > 0 {
		i := slices.IndexFunc(hashes, func(h struct {
			oid asn1.ObjectIdentifier
			new func() hash.Hash
		}) bool {
			return h.oid.Equal(prf)
		})
		if i < 0 {
			return nil, fmt.Errorf("the private key's password goes through %v, which is not known", prf)
		}
		newHash = hashes[i].new
	}
	for _, c := range blockCiphers {
		if !c.oid.Equal(scheme.Encryption.Algorithm) {
			continue
		}
		if _, err := asn1.Unmarshal(scheme.Encryption.Parameters.FullBytes, &iv); err != nil {
			return nil, malformed
		}
		if n := derivation.Iterations; n < 1 || n > iterationsMost {
			return nil, malformed
		}
		secret, err := pbkdf2.Key(newHash, pass, derivation.Salt, derivation.Iterations, c.key)
		if err != nil {
			return nil, err
		}
		block, err := c.new(secret)
		if err != nil {
			return nil, err
		}
		return decryptCBC(block, iv, key.Data)
	}
	return nil, fmt.Errorf("the private key is encrypted by %v, which is not known", scheme.Encryption.Algorithm)
}

func decryptCBC(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("the encrypted private key is malformed")
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	n := int(plain[len(plain)-1])
	if n == 0 || n > size || !bytes.Equal(plain[len(plain)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, errPassword
	}
	return plain[:len(plain)-n], nil
}
