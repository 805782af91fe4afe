package object

import (
	"crypto/sha256"
	"encoding/hex"
)

// Proof is the full SHA-256 of a text. Where it stands in the status of a custom resource, which its author cannot write, it proves that
// a text within reach of others is the operator's. A Digest would not: who can choose both can find two texts that have the same.
func Proof(text string) string {
	sum, block := sha256.New(), make([]byte, 4096) // a text may be large: it is not copied as a whole
	for len(text) > 0 {
		n := copy(block, text)
		sum.Write(block[:n])
		text = text[n:]
	}
	return hex.EncodeToString(sum.Sum(nil))
}
