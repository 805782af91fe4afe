package chaos

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/tests/waiting"
)

// disasters causes one failure after the other, and returns a sentence that counts them.
func (w *world) disasters(ctx context.Context) string {
	choice := source(0)
	kinds := []struct {
		name  string
		times int // of ten kills
		do    func(context.Context) error
	}{
		{"operator killed", 10, func(ctx context.Context) error {
			if err := w.operator.kill(ctx); err != nil {
				return err
			}
			return w.countInterrupted(ctx)
		}},
		{"operator told to stop", 2, func(context.Context) error { w.operator.running().Stop(); return nil }},
		{"all connections cut", 2, func(context.Context) error { w.proxy.cut(); return nil }},
		{"API server killed", 1, func(context.Context) error { return w.RestartAPIServer() }},
		{"etcd killed", 1, func(context.Context) error { return w.RestartEtcd() }},
		{"lease stolen", 1, w.operator.steal},
		{"operator frozen past its lease", 1, w.operator.freeze},
	}
	var deck []int
	for kind := range kinds {
		for range kinds[kind].times * max(1, *kills/10) {
			deck = append(deck, kind)
		}
	}
	choice.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	counts := make([]int, len(kinds))
	for _, kind := range deck {
		w.must(w.operator.leads(ctx))
		time.Sleep(time.Duration(choice.IntN(2500)) * time.Millisecond) // the random moment
		if err := kinds[kind].do(ctx); err != nil {
			w.Fatalf("%s: %v", kinds[kind].name, err)
		}
		counts[kind]++
	}
	sentence := ""
	for kind, count := range counts {
		sentence += fmt.Sprintf("%s %d times, ", kinds[kind].name, count)
	}
	return sentence[:len(sentence)-2]
}

// countInterrupted counts the releases that a kill has left in the middle of an action. Without any, the kills would
// prove nothing.
func (w *world) countInterrupted(ctx context.Context) error {
	return waiting.For(ctx, w.Logf, "the releases are counted", time.Minute, pause, func(ctx context.Context) error {
		records := &corev1.ConfigMapList{}
		if err := w.Client.List(ctx, records, client.InNamespace(namespace), client.MatchingLabels{"owner": "helm"}); err != nil {
			return err
		}
		for i := range records.Items {
			if isPending(&records.Items[i]) {
				w.interrupted++
			}
		}
		return nil
	})
}
