// Command handwritten is the operator that a Go programmer would write for a Welcome, without Helm: it applies a Deployment
// and a Service on the server's side and says in the status how they are. tests/bench measures ours against it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var welcomeKind = schema.GroupVersionKind{Group: "webapp.demo.welcome.domain", Version: "v1", Kind: "Welcome"}

const fieldOwner = client.FieldOwner("handwritten")

func main() {
	metrics := flag.String("metrics-bind-address", ":8080", "the `host:port` of the metrics")
	probes := flag.String("health-probe-bind-address", ":8081", "the `host:port` of /readyz")
	flag.Parse()
	if err := run(*metrics, *probes); err != nil {
		fmt.Fprintln(os.Stderr, "handwritten:", err)
		os.Exit(1)
	}
}

func run(metrics, probes string) error {
	ctrl.SetLogger(zap.New())
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics:                metricsserver.Options{BindAddress: metrics},
		HealthProbeBindAddress: probes,
		Client:                 client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(welcomeKind)
	err = ctrl.NewControllerManagedBy(mgr).For(owner).Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).Complete(&reconciler{mgr.GetClient()})
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("caches", readyWhenSynced(mgr.GetCache())); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

type reconciler struct{ client.Client }

// Reconcile applies the children of a Welcome and writes its status.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	welcome := &unstructured.Unstructured{}
	welcome.SetGroupVersionKind(welcomeKind)
	if err := r.Get(ctx, request.NamespacedName, welcome); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	for _, child := range children(welcome) {
		if err := r.Apply(ctx, child, fieldOwner, client.ForceOwnership); err != nil {
			return ctrl.Result{}, fmt.Errorf("apply: %w", err)
		}
	}
	return ctrl.Result{}, r.applyStatus(ctx, welcome)
}

func (r *reconciler) applyStatus(ctx context.Context, welcome *unstructured.Unstructured) error {
	deployment := &appsv1.Deployment{}
	// Right after the first apply the cache may not know it yet: then nothing is ready.
	if err := r.Get(ctx, client.ObjectKeyFromObject(welcome), deployment); client.IgnoreNotFound(err) != nil {
		return err
	}
	ready := metav1.ConditionFalse
	if deployment.Status.ReadyReplicas > 0 {
		ready = metav1.ConditionTrue
	}
	status := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"observedGeneration": welcome.GetGeneration(),
		"readyReplicas":      int64(deployment.Status.ReadyReplicas),
		"conditions":         []any{map[string]any{"type": "Ready", "status": string(ready)}},
	}}}
	status.SetGroupVersionKind(welcomeKind)
	status.SetNamespace(welcome.GetNamespace())
	status.SetName(welcome.GetName())
	return r.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(status), fieldOwner, client.ForceOwnership)
}
