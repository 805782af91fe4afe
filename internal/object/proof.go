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

// Key is what digests of the values of Secrets are made with, lest somebody who sees a digest tries values on
// it until one fits. It is random, and kept inside of the release records, which are Secrets themselves: who
// can read it can read the values. With another key, or without its records, a digest proves nothing, and
// nothing has to be proven then.
type Key string

// Plain is the key of a kind without Secrets: whoever has a text can make its digest.
const Plain Key = ""

// KeyLength is how long a key is, if it is not empty.
const KeyLength = 26

// NewKey makes a key by chance.
func NewKey() Key { return Key(rand.Text()) }

// sealed is how a proof begins that was made with a key.
const sealed = "hmac-"

// Sealed is whether a proof was made with a key.
func Sealed(proof string) bool { return strings.HasPrefix(proof, sealed) }

// Proof is the full SHA-256 of a text, or its HMAC. Where it stands in the status of a custom resource, which
// its author cannot write, it proves that a text within reach of others is the operator's. A Digest would not:
// who can choose both can find two texts that have the same.
func (k Key) Proof(text string) string {
	sum, prefix := k.hash(), ""
	if k != Plain {
		prefix = sealed
	}
	block := make([]byte, min(4096, len(text))) // a text may be large: it is not copied as a whole
	for len(text) > 0 {
		n := copy(block, text)
		sum.Write(block[:n])
		text = text[n:]
	}
	return prefix + hex.EncodeToString(sum.Sum(nil))
}

// Proves is whether proof is that of a text. A plain one holds beside a key: it was made before the kind had Secrets.
func (k Key) Proves(proof, text string) bool {
	if !Sealed(proof) {
		k = Plain
	}
	return proof != "" && k.Proof(text) == proof
}

// Digest fits into a label, and 128 bits of SHA-256 do not collide by chance.
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

// seal makes of the fingerprint of a Secret one that is as good to compare with, and good for nothing without the key.
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
