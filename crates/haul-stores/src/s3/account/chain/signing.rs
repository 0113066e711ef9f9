//! Signatures of requests to STS.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::request::Parts;
use reqsign_aws_core as aws;
use reqsign_core::{Context, SignRequest};

use crate::s3::account::Credential;
use crate::s3::account::io::CredentialIo;
use crate::s3::sign::{Payload, Signer};

/// Signs what is sent to STS, at the place where STS is.
#[derive(Debug)]
pub(super) struct Signing {
    pub(super) signer: Signer,
    pub(super) io: CredentialIo,
}

impl SignRequest for Signing {
    type Credential = aws::Credential;

    async fn sign_request(
        &self,
        _: &Context,
        request: &mut Parts,
        credential: Option<&aws::Credential>,
        _: Option<Duration>,
    ) -> reqsign_core::Result<()> {
        let credential = credential.ok_or_else(|| reqsign_core::Error::credential_invalid("nothing to sign with"))?;
        let (id, secret) = (credential.access_key_id.clone(), credential.secret_access_key.clone());
        let credential = Arc::new(Credential::new(id, secret, credential.session_token.clone(), None));
        let hash = request.headers.get("x-amz-content-sha256").and_then(|hash| hash.to_str().ok()).unwrap_or_default().to_string();
        // The library writes the query as a form has it, and what is signed is written otherwise.
        let uri = self.io.redirected(&request.uri).to_string().replace('+', "%20").replace('*', "%2A").replace("%7E", "~");
        request.uri = uri.parse().unwrap_or_else(|_| request.uri.clone());
        let signed =
            self.signer.sign(&request.method, &request.uri, &mut request.headers, Payload::Hash(&hash), &credential, SystemTime::now());
        signed.map_err(|error| reqsign_core::Error::request_invalid(error.to_string()))
    }
}
