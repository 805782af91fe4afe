package object

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
)

// Key is the secret in the digests of Secrets' values, without which anybody who sees a digest could guess a
// value and check the guess. It is random, and is kept in the release records, which are Secrets themselves:
// who can read it can read the values. With another key, or if the records are gone, a digest proves nothing,
// and nothing has to be proven then.
type Key string

// Plain is the key of a kind without Secrets. Anybody who has a text can make its plain digest.
const Plain Key = ""

// KeyLength is the length of a key that is not Plain.
const KeyLength = 26

// NewKey makes a random key.
func NewKey() Key { return Key(rand.Text()) }

// sealed is the prefix of a proof that was made with a key.
const sealed = "hmac-"

// Sealed is whether a proof was made with a key.
func Sealed(proof string) bool { return strings.HasPrefix(proof, sealed) }

// Proof is the full SHA-256 of a text, or its HMAC. In the status of a custom resource, which its author
// cannot write, it proves that a text which others can change is the operator's. A Digest would be too short:
// who chooses both texts can find two with the same digest.
func (k Key) Proof(text string) string {
	sum, prefix := k.hash(), ""
	if k != Plain {
		prefix = sealed
	}
	block := make([]byte, min(4096, len(text))) // a text may be large: block by block, it is not copied as a whole
	for len(text) > 0 {
		n := copy(block, text)
		sum.Write(block[:n])
		text = text[n:]
	}
	return prefix + hex.EncodeToString(sum.Sum(nil))
}

// Proves is whether proof is the proof of a text. A plain proof is valid even if there is a key: it was made
// before the kind had Secrets.
func (k Key) Proves(proof, text string) bool {
	if !Sealed(proof) {
		k = Plain
	}
	return proof != "" && k.Proof(text) == proof
}

// Digest fits into a label. Its 128 bits of SHA-256 do not collide by chance.
func (k Key) Digest(text []byte) string {
	sum := k.hash()
	sum.Write(text)
	return hex.EncodeToString(sum.Sum(nil)[:digestLength/2])
}

func (k Key) hash() hash.Hash {
	if k == Plain {
		return sha256.New()
	}
	return hmac.New(sha256.New, []byte(k))
}

// seal makes a fingerprint of a Secret that compares like the plain one, and from which nobody can guess
// values without the key.
func (k Key) seal(fingerprint string) string {
	if k == Plain || len(fingerprint) < digestLength {
		return fingerprint
	}
	var marks []string
	for rest := fingerprint[digestLength:]; len(rest) >= markLength; rest = rest[markLength:] {
		sum := k.hash()
		sum.Write([]byte(rest[:markLength]))
		marks = append(marks, base64.RawURLEncoding.EncodeToString(sum.Sum(nil))[:markLength])
	}
	slices.Sort(marks)
	return k.Digest([]byte(fingerprint[:digestLength])) + strings.Join(marks, "")
}
