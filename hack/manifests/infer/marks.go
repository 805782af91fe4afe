package infer

import (
	"encoding/base64"
	"slices"
	"strings"
)

// What stands for the text of an author, for a field that only an author knows, and for a number.
const (
	markText   = "zqmark"
	markKey    = "zqkey"
	markNumber = 30917
)

// aText is what turns on what a template makes only where there is a text. It is no mark: what it gets to does not count.
const aText = "zqgiven"

// IsTried is whether a text has one that charts are tried with, and so is of no custom resource.
func IsTried(text string) bool {
	return slices.ContainsFunc([]string{markText, markKey, aText}, func(tried string) bool { return strings.Contains(text, tried) })
}

// few is a number of which a chart can make that many objects. It may be in any text, so that it is no mark.
const few = 97

// wild is a text that is only left whole where a template quotes it. Everywhere else it could be more than a text.
const wild = markText + "'\"\n}: #x"

// wildKey is the like for the name of a field.
const wildKey = markKey + "'\"\n}: #x"

// evaluated is what is left of a text that is run as a template.
const evaluated, template = markText + "eval", `{{ print "` + markText + `" "eval" }}`

// encoded is in base64 what is only left whole where a template quotes it, and decodedText what that reaches
// elsewhere. It is one word.
var encoded = base64.StdEncoding.EncodeToString([]byte(wild + "x"))

const decodedText = "more than a text, decoded"
