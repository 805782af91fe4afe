package object

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// NewScheme returns a scheme of Kubernetes' own kinds. client-go's is everybody's: Helm adds to it when it
// makes its first client, and the library adds custom resources to that of the manager. Whoever reads it
// meanwhile ends the process.
func NewScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	return s
}

// builtIn are Kubernetes' own kinds, to which nobody adds any.
var builtIn = NewScheme()

// BuiltIn is whether a kind is Kubernetes' own.
func BuiltIn(gvk schema.GroupVersionKind) bool { return builtIn.Recognizes(gvk) }
