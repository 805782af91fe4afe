package main

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"demo.welcome.domain/welcome-operator/tests/kit"
)

// Who waits for several is told of all that are not done, whichever comes first, and no later than nothing more can come.
func TestPauseAndResumeWaitForAll(t *testing.T) {
	const progressing, paused, stalled = "Ready=False:Progressing:Not all pods are ready.", "Ready=Unknown:Paused:Nothing is applied.", "Stalled=True:ChartError:No such value."
	for name, test := range map[string]struct {
		there   []*unstructured.Unstructured
		pause   bool
		timeout string
		early   bool
		says    []string
		not     string
	}{
		"a pause that two do not see": {[]*unstructured.Unstructured{with(seen("a", healthy), kit.Pause(true)), with(seen("b", paused), kit.Pause(true)), with(seen("c", healthy), kit.Pause(true))}, true, "2s", false,
			[]string{"not done after 2s", "welcome/a in shop, welcome/c in shop", "kubectl welcome doctor"}, "welcome/b in shop"},
		"all see it": {[]*unstructured.Unstructured{with(seen("a", paused), kit.Pause(true)), with(seen("b", paused), kit.Pause(true))}, true, "30s", true, nil, ""},
		"two do not become Ready, one never": {[]*unstructured.Unstructured{seen("a", progressing), seen("b", healthy), seen("c", progressing), seen("d", "Ready=False:ChartError:No such value.", stalled)}, false, "2s", false,
			[]string{"welcome/d in shop: ChartError: No such value.", "not done after 2s", "welcome/a in shop, welcome/c in shop. welcome/a: Not all pods are ready."}, "welcome/b in shop"},
		"one never becomes Ready":      {[]*unstructured.Unstructured{seen("a", "Ready=False:ChartError:No such value.", stalled), seen("b", healthy)}, false, "30s", true, []string{"welcome/a in shop: ChartError: No such value."}, "welcome/b in shop"},
		"one is deleted meanwhile":     {[]*unstructured.Unstructured{seen("gone", progressing), seen("b", healthy)}, false, "30s", true, nil, ""},
		"one may not be read any more": {[]*unstructured.Unstructured{seen("forbidden", progressing), seen("b", healthy)}, false, "30s", true, []string{"welcome/forbidden in shop: ", "is forbidden"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			welcome := schema.GroupResource{Group: welcomes.Group, Resource: "welcomes"}
			c := knowing(t, genericiooptions.NewTestIOStreamsDiscard(), interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					for _, obj := range test.there {
						list.(*unstructured.UnstructuredList).Items = append(list.(*unstructured.UnstructuredList).Items, *obj.DeepCopy())
					}
					return nil
				},
				Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
					switch key.Name {
					case "gone":
						return apierrors.NewNotFound(welcome, key.Name)
					case "forbidden":
						return apierrors.NewForbidden(welcome, key.Name, nil)
					}
					for _, obj := range test.there {
						if obj.GetName() == key.Name {
							obj.DeepCopyInto(into.(*unstructured.Unstructured))
						}
					}
					return nil
				},
			})
			cmd, began := NewCmdResume(c), time.Now()
			if test.pause {
				cmd = NewCmdPause(c)
			}
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs([]string{"-A", "--wait", "--timeout=" + test.timeout})
			err := cmd.ExecuteContext(t.Context())
			if (err == nil) != (len(test.says) == 0) || test.early && time.Since(began) > 20*time.Second {
				t.Fatalf("after %s: %v", time.Since(began), err)
			}
			for _, text := range test.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v, without %q", err, text)
				}
			}
			if err != nil && test.not != "" && strings.Contains(err.Error(), test.not) {
				t.Errorf("%v, with %q", err, test.not)
			}
		})
	}
}
