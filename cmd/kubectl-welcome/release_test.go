package main

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// takenSecrets has a Secret of every name, and counts the requests that would change one.
type takenSecrets struct {
	corev1client.SecretInterface
	changed int
}

func (s *takenSecrets) asked(dryRun []string) {
	if !slices.Equal(dryRun, []string{metav1.DryRunAll}) {
		s.changed++
	}
}

func (s *takenSecrets) Create(_ context.Context, secret *corev1.Secret, options metav1.CreateOptions) (*corev1.Secret, error) {
	s.asked(options.DryRun)
	return nil, apierrors.NewAlreadyExists(corev1.Resource("secrets"), secret.Name)
}

func (s *takenSecrets) Delete(_ context.Context, _ string, options metav1.DeleteOptions) error {
	s.asked(options.DryRun)
	return nil
}

// A trial changes nothing, and treats what it would have deleted as deleted.
func TestTrialSecrets(t *testing.T) {
	ctx := context.Background()
	api := &takenSecrets{}
	trial := trialSecrets{api, map[string]bool{}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hello"}}
	if _, err := trial.Create(ctx, secret, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("somebody's Secret is in the way, and then %v", err)
	}
	if err := trial.Delete(ctx, secret.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := trial.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Errorf("that of an earlier run goes first, and then %v", err)
	}
	if api.changed > 0 {
		t.Errorf("it has changed %d Secrets", api.changed)
	}
}

func TestWhose(t *testing.T) {
	got := whose([]string{"uninstall-helm-release", "orphan", "example.com/theirs"})
	if want := []string{"uninstall-helm-release (the operator)", "orphan (Kubernetes' garbage collector, once the objects are nobody's)", "example.com/theirs"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
