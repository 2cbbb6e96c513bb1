package offsite

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
)

// A Key encrypts and decrypts with AES-256-GCM. All its keys are derived from one secret of 32 bytes by HKDF-SHA-256.
//
// The name of a part is the HMAC-SHA-256 of its content under one of these keys. A part's own key is derived from the
// secret and the name, so it encrypts one content only and its nonce may be zero. The same content gives the same
// object. So a broken push can continue, and backups share parts. The store learns only whether two parts are equal.
//
// A manifest has a key with a random salt. It lists the parts in order, with their lengths. So no part can be left out,
// moved or cut without a check failing.
type Key struct {
	secret []byte
	names  []byte
	id     string
}

// secretBytes is the length of a secret.
const secretBytes = 32

// ReadKey reads the secret from a file: 64 hex digits.
//
// Errors: any user may read the file, or it does not have this form.
func ReadKey(path string) (*Key, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if stat.Mode().IsRegular() && stat.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%s may be read by any user of this host: chmod 600 %s", path, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != secretBytes {
		return nil, fmt.Errorf("%s is no key: it must have 64 digits in hex, as openssl rand -hex 32 makes them", path)
	}
	return NewKey(secret)
}

// NewKey makes a key from a secret of 32 bytes.
func NewKey(secret []byte) (*Key, error) {
	k := &Key{secret: secret}
	id, err := k.derive(nil, "id", 8)
	if err == nil {
		k.names, err = k.derive(nil, "part name", sha256.Size)
	}
	k.id = hex.EncodeToString(id)
	return k, err
}

// derive derives a key for one purpose.
func (k *Key) derive(salt []byte, purpose string, length int) ([]byte, error) {
	return hkdf.Key(sha256.New, k.secret, salt, "spindle backup 1 "+purpose, length)
}

// ID identifies the key without revealing it.
func (k *Key) ID() string { return k.id }

// cipher returns AES-256-GCM under a key for one message.
func (k *Key) cipher(salt []byte, purpose string) (cipher.AEAD, error) {
	key, err := k.derive(salt, purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// gcmOverhead is by how many bytes an encrypted part is longer.
const gcmOverhead = 16

// overhead returns by how many bytes parts are longer in the store.
func (k *Key) overhead() int64 {
	if k == nil {
		return 0
	}
	return gcmOverhead
}

// partName returns the name of a part with this content. Without a key it is the SHA-256.
func (k *Key) partName(content []byte) string {
	if k == nil {
		sum := sha256.Sum256(content)
		return hex.EncodeToString(sum[:])
	}
	sum := hmac.New(sha256.New, k.names)
	sum.Write(content)
	return hex.EncodeToString(sum.Sum(nil))
}

// sealPart returns the object of a part. Without a key that is content itself.
func (k *Key) sealPart(name string, content []byte) ([]byte, error) {
	if k == nil {
		return content, nil
	}
	c, err := k.cipher(nil, "part "+name)
	if err != nil {
		return nil, err
	}
	return c.Seal(nil, make([]byte, c.NonceSize()), content, []byte(name)), nil
}

// errDamaged means that an object differs from what was written.
var errDamaged = errors.New("is damaged: its checksum is another one")

// openPart returns the checked content of a part's object. Errors: errDamaged.
func (k *Key) openPart(name string, object []byte) ([]byte, error) {
	content := object
	if k != nil {
		c, err := k.cipher(nil, "part "+name)
		if err != nil {
			return nil, err
		}
		if content, err = c.Open(object[:0], make([]byte, c.NonceSize()), object, []byte(name)); err != nil {
			return nil, errDamaged
		}
	}
	if k.partName(content) != name {
		return nil, errDamaged
	}
	return content, nil
}

// A manifest's object is a line and a body. The line says how to read the body:
//
//	spindle-backup 1 plain SHA256
//	spindle-backup 1 aes-256-gcm KEY-ID SALT
const manifestHead = "spindle-backup 1 "

// sealManifest returns the object of a manifest. The object authenticates id, so it cannot pass for another backup.
func (k *Key) sealManifest(id string, body []byte) ([]byte, error) {
	if k == nil {
		return append([]byte(manifestHead+"plain "+checksum(id, body)+"\n"), body...), nil
	}
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	c, err := k.cipher(salt, "manifest")
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("%saes-256-gcm %s %x\n", manifestHead, k.id, salt)
	return c.Seal([]byte(head), make([]byte, c.NonceSize()), body, []byte(head+id)), nil
}

// checksum returns the checksum of a manifest that is not encrypted.
func checksum(id string, body []byte) string {
	sum := sha256.Sum256(append([]byte(id+"\n"), body...))
	return hex.EncodeToString(sum[:])
}

// A KeyError means that a manifest is encrypted and none of the keys decrypts it.
type KeyError struct {
	Backup string
	ID     string   // of the key that it needs
	Given  []string // the ids of the given keys
}

func (e *KeyError) Error() string {
	if len(e.Given) == 0 {
		return fmt.Sprintf("backup %s is encrypted with the key %s: name its file by --key-file", e.Backup, e.ID)
	}
	return fmt.Sprintf("wrong key: backup %s is encrypted with the key %s, and the key given is %s", e.Backup, e.ID,
		strings.Join(e.Given, " "))
}

// openManifest returns the body of a manifest's object, and the key of the manifest's parts.
//
// Errors: *KeyError; errDamaged; another format.
func openManifest(keys []*Key, id string, object []byte) (body []byte, k *Key, err error) {
	head, rest, found := strings.Cut(string(object), "\n")
	words := strings.Fields(strings.TrimPrefix(head, manifestHead))
	switch {
	case !found:
		return nil, nil, errDamaged
	case !strings.HasPrefix(head, manifestHead):
		return nil, nil, errors.New("is of a format that this version does not know")
	case len(words) == 2 && words[0] == "plain":
		if checksum(id, []byte(rest)) != words[1] {
			return nil, nil, errDamaged
		}
		return []byte(rest), nil, nil
	case len(words) != 3 || words[0] != "aes-256-gcm":
		return nil, nil, errDamaged
	}
	wrong := &KeyError{Backup: id, ID: words[1]}
	for _, k := range keys {
		if k.id != words[1] {
			wrong.Given = append(wrong.Given, k.id)
			continue
		}
		salt, err := hex.DecodeString(words[2])
		if err != nil {
			return nil, nil, errDamaged
		}
		c, err := k.cipher(salt, "manifest")
		if err != nil {
			return nil, nil, err
		}
		plain, err := c.Open(nil, make([]byte, c.NonceSize()), []byte(rest), []byte(head+"\n"+id))
		if err != nil {
			return nil, nil, errDamaged
		}
		return plain, k, nil
	}
	return nil, nil, wrong
}
