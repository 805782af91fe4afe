package release

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	"helm.sh/helm/v3/pkg/action"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"demo.welcome.domain/welcome-operator/internal/object"
)

// Annotations of custom resources that the stock Helm operators obey: operator-sdk's
// internal/helm/controller/reconcile.go, and pkg/annotation of helm-operator-plugins.
const (
	stockOptions = "helm.sdk.operatorframework.io/"

	installDescription   = stockOptions + "install-description"
	upgradeDescription   = stockOptions + "upgrade-description"
	uninstallDescription = stockOptions + "uninstall-description"
	installDisableHooks  = stockOptions + "install-disable-hooks"
	upgradeDisableHooks  = stockOptions + "upgrade-disable-hooks"
	upgradeForce         = stockOptions + "upgrade-force"
	rollbackForce        = stockOptions + "rollback-force"
	uninstallWait        = stockOptions + "uninstall-wait"
	reconcilePeriod      = stockOptions + "reconcile-period"

	// MaxStockAnnotation is how much of such an annotation counts, in bytes.
	MaxStockAnnotation = 128
	// minPeriod is the shortest period that an author may ask for.
	minPeriod = 10 * time.Second
)

// IgnoredAnnotations is the condition that tells which annotations, of a stock Helm operator and [Pause], have no effect.
const IgnoredAnnotations = "IgnoredAnnotations"

// StockAnnotations are the annotations that are read of a custom resource.
var StockAnnotations = []string{
	installDescription, upgradeDescription, uninstallDescription, installDisableHooks, upgradeDisableHooks, upgradeForce, rollbackForce, uninstallWait, reconcilePeriod,
}

// isOn is whether an annotation is true, as the stock operators read it.
func isOn(owner client.Object, option string) bool {
	on, err := strconv.ParseBool(owner.GetAnnotations()[option])
	return err == nil && on
}

// ignored lists the annotations of owner that have no effect, and for each why, or what to use instead.
func (k *Kind) ignored(owner client.Object) string {
	var why []string
	ignore := func(option, remedy string) { why = append(why, option+" ("+remedy+")") }
	consent := func(word string) string {
		return "the operator's watches.yaml has to allow it: allow: {options: [" + word + "]}"
	}
	hooks := slices.Contains(k.Allow.Options, object.OptionDisableHooks)
	for _, option := range StockAnnotations {
		value, set := owner.GetAnnotations()[option]
		switch {
		case !set:
		case option == uninstallDescription:
			ignore(option, "no record of a deleted release is kept")
		case option == reconcilePeriod && !slices.Contains(k.Allow.Options, object.OptionReconcilePeriod):
			ignore(option, consent(object.OptionReconcilePeriod))
		case option == reconcilePeriod:
			if period, err := time.ParseDuration(value); err != nil || period < 0 {
				ignore(option, "it is no duration: write 1h30m")
			} else if period > 0 && period < minPeriod {
				ignore(option, fmt.Sprintf("%s is the shortest, and taken instead", minPeriod))
			}
		case !isOn(owner, option):
		case (option == installDisableHooks || option == upgradeDisableHooks) && !hooks:
			ignore(option, consent(object.OptionDisableHooks))
		case (option == upgradeForce || option == rollbackForce) && len(k.Recreate) == 0:
			ignore(option, "recreate in the operator's watches.yaml says what may be made anew")
		case option == uninstallWait:
			ignore(option, "kubectl delete --cascade=foreground waits until all is gone")
		}
	}
	for _, option := range []string{Pause, WithoutHooks} {
		if value, set := owner.GetAnnotations()[option]; set {
			if _, err := strconv.ParseBool(value); err != nil {
				ignore(option, "it is neither true nor false: write true")
			}
		}
	}
	return strings.Join(why, "; ")
}

// period is the time between two reconciles of the owner to which nothing happens, 0 for never.
func (a *actionClient) period() time.Duration {
	asked, err := time.ParseDuration(a.owner.GetAnnotations()[reconcilePeriod])
	if err != nil || asked < 0 || !slices.Contains(a.Allow.Options, object.OptionReconcilePeriod) {
		return a.Period
	}
	if asked > 0 {
		asked = max(asked, minPeriod)
	}
	return asked
}

// skipsHooks is whether an installation or an upgrade runs no hooks.
func (a *actionClient) skipsHooks() bool {
	option := upgradeDisableHooks
	if a.current == nil {
		option = installDisableHooks
	}
	return isOn(a.owner, option) && slices.Contains(a.Allow.Options, object.OptionDisableHooks) || a.lost()
}

// asInstall and asUpgrade have Helm do as the annotations of the owner say.
func (a *actionClient) asInstall() helmclient.InstallOption {
	return func(install *action.Install) error {
		install.Timeout = a.Timeout
		install.Description, install.DisableHooks = a.owner.GetAnnotations()[installDescription], a.skipsHooks()
		return nil
	}
}

func (a *actionClient) asUpgrade() helmclient.UpgradeOption {
	return func(upgrade *action.Upgrade) error {
		upgrade.Timeout = a.Timeout
		upgrade.Description, upgrade.DisableHooks = a.owner.GetAnnotations()[upgradeDescription], a.skipsHooks()
		return nil
	}
}
