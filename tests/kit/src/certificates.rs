//! Certificates for tests, in the files and under the names that libnbd, QEMU and nbdkit look for in a folder.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use std::path::{Path, PathBuf};

/// An authority, and a folder with its certificate and those that it has signed.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    /// Makes `folder` with `ca-cert.pem` in it.
    pub fn new(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "a test's authority");
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        std::fs::write(folder.join("ca-cert.pem"), issuer.pem()).expect("written");
        Self { issuer, folder: folder.to_owned() }
    }

    /// Adds `NAME-cert.pem` and `NAME-key.pem`. `usage`: its purpose.
    pub fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) {
        let mut params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).expect("names");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        std::fs::write(self.file(&format!("{name}-cert.pem")), certificate.pem()).expect("written");
        std::fs::write(self.file(&format!("{name}-key.pem")), key.serialize_pem()).expect("written");
    }

    /// Server and client, as most tests need them.
    pub fn with_both(folder: &Path) -> Self {
        let authority = Self::new(folder);
        authority.sign("server", ExtendedKeyUsagePurpose::ServerAuth);
        authority.sign("client", ExtendedKeyUsagePurpose::ClientAuth);
        authority
    }

    /// The path of one of its files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
