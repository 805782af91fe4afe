//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
)

// certificateLife is longer than any cluster's; down deletes the keys.
const certificateLife = 10 * 365 * 24 * time.Hour

// authority signs the certificates of a cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// ensurePKI makes all keys, certificates and kubeconfigs, once: pods and the
// contents of etcd hold copies of the authority. The administrator's kubeconfig
// comes last, so it says that all others are there.
func (c *cluster) ensurePKI() error {
	if _, err := os.Stat(c.kubeconfig()); err == nil {
		return nil
	}
	ca, err := c.newAuthority("ca")
	if err != nil {
		return err
	}
	// The API server trusts this one alone to say on whose behalf a request comes.
	frontProxyCA, err := c.newAuthority("front-proxy-ca")
	if err != nil {
		return err
	}
	n := c.Network
	if err := errors.Join(
		c.issue(ca, "kube-apiserver", pkix.Name{CommonName: "kube-apiserver"},
			[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			n.Node, n.API, netip.MustParseAddr("127.0.0.1")),
		c.issue(ca, "kubelet-server", pkix.Name{CommonName: c.Name}, []string{c.Name}, n.Node),
		c.issue(ca, "registry", pkix.Name{CommonName: "registry"}, []string{c.Name}, n.Node),
		c.issue(ca, "kubelet-client", pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}}, nil),
		c.issue(frontProxyCA, "front-proxy-client", pkix.Name{CommonName: "front-proxy-client"}, nil),
		c.writeUser(ca, c.config("kube-controller-manager.kubeconfig"), pkix.Name{CommonName: "system:kube-controller-manager"}),
		c.writeUser(ca, c.config("kube-scheduler.kubeconfig"), pkix.Name{CommonName: "system:kube-scheduler"}),
		c.writeUser(ca, c.config("kube-proxy.kubeconfig"), pkix.Name{CommonName: "system:kube-proxy"}),
		c.writeUser(ca, c.config("kubelet.kubeconfig"), pkix.Name{CommonName: "system:node:" + c.Name, Organization: []string{"system:nodes"}}),
		c.writeServiceAccountKey(),
	); err != nil {
		return err
	}
	return c.writeUser(ca, c.kubeconfig(), pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}})
}

func (c *cluster) newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate(pkix.Name{CommonName: c.Name + "-" + name})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage |= x509.KeyUsageCertSign
	ca := &authority{cert: template, key: key}
	return ca, c.sign(ca, name, template, key)
}

// issue writes pki/<name>.crt and .key, valid as a client's and, for the given
// names and addresses, as a server's.
func (c *cluster) issue(ca *authority, name string, subject pkix.Name, dnsNames []string, addresses ...netip.Addr) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := certificate(subject)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	template.DNSNames = dnsNames
	for _, a := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(a.AsSlice()))
	}
	return c.sign(ca, name, template, key)
}

func certificate(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func (c *cluster) sign(ca *authority, name string, template *x509.Certificate, key *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return fmt.Errorf("sign certificate %s: %w", name, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(c.pki(name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644),
		os.WriteFile(c.pki(name+".key"), keyPEM, 0o600),
	)
}

func (c *cluster) writeServiceAccountKey() error {
	keyPEM, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	return os.WriteFile(c.pki("service-account.key"), keyPEM, 0o600)
}

// writeUser writes a kubeconfig with a certificate of its own.
func (c *cluster) writeUser(ca *authority, path string, subject pkix.Name) error {
	if err := c.issue(ca, subject.CommonName, subject, nil); err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.CurrentContext = c.Name
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: subject.CommonName}
	config.Clusters[c.Name] = &clientcmdapi.Cluster{
		Server:               "https://" + c.apiAddress(),
		CertificateAuthority: c.pki("ca.crt"),
	}
	config.AuthInfos[subject.CommonName] = &clientcmdapi.AuthInfo{
		ClientCertificate: c.pki(subject.CommonName + ".crt"),
		ClientKey:         c.pki(subject.CommonName + ".key"),
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return clientcmd.WriteToFile(*config, path)
}
