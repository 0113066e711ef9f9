//! The login of `aws sso login`: exchanged for the credentials of a role, and renewed with its refresh token as the AWS command line
//! does it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use haul_core::entry::Time;
use haul_core::error::{Error, Result};
use haul_core::hash::hex;
use http::{HeaderValue, Request};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::super::Credential;
use super::super::profile::contents;
use super::{Chain, failure, line, passing};
use crate::address::{self, Endpoint};
use crate::state_file;
use haul_net::http_client::time;

/// How long before its end a login is renewed: as the AWS command line has it.
const EARLY: u64 = 10 * 60;

impl Chain<'_> {
    /// Renews the login of a session if it is over, or nearly so, and can be renewed. Whatever else is wrong with the file is told
    /// by who reads it next.
    pub(super) fn renew_login(&self, session: &str, region: &str) -> Result<()> {
        let path = cache_of(&self.environment.path("~/.aws/sso/cache"), session);
        let Some(login) = Login::read(&path) else { return Ok(()) };
        let now = seconds(SystemTime::now());
        if login.ends("expiresAt").is_none_or(|end| end > now + EARLY) {
            return Ok(());
        }
        let Some(request) = login.request() else { return Ok(()) };
        let is_over = login.ends("expiresAt").is_some_and(|end| end <= now);
        if login.ends("registrationExpiresAt").is_some_and(|end| end <= now) {
            let e = || failure(format!("the login of the SSO session {session} has expired, and so has its registration"));
            return if is_over { Err(e()) } else { Ok(()) };
        }
        match self.renewed(region, request) {
            Ok(answer) => {
                // Who cannot write it has a login for this run's next step only: it would be lost.
                let text = login.with(&answer, now)?;
                state_file::replace_secret(&path, text.as_bytes()).map_err(|e| Error::io(e, "write").at(path_bytes(&path)))
            }
            // Another program may have renewed it meanwhile: each refresh token is good for one request.
            Err(_) if Login::read(&path).is_some_and(|newer| newer.ends("expiresAt") > login.ends("expiresAt")) => Ok(()),
            // What is kept still serves.
            Err(_) if !is_over => Ok(()),
            Err(words) => Err(failure(format!("the login of the SSO session {session} has expired and cannot be renewed: {words}"))),
        }
    }

    /// Exchanges a login for the credentials of a role.
    pub(super) fn role_of_login(&self, login: &str, region: &str, account: &str, role: &str) -> Result<Credential> {
        let path = cache_of(&self.environment.path("~/.aws/sso/cache"), login);
        let none = || failure(format!("there is no login in {}", path.display()));
        let kept = Login::read(&path).ok_or_else(none)?;
        let token = kept.text("accessToken").ok_or_else(none)?;
        if kept.ends("expiresAt").is_none_or(|end| end <= seconds(SystemTime::now())) {
            return Err(failure("the login has expired".into()));
        }
        let usual = || Endpoint::of_region(region).map(|s3| s3.to_string().replacen("://s3.", "://portal.sso.", 1));
        let named = self.services.sso.as_ref().map(ToString::to_string);
        let endpoint = named.map_or_else(usual, Ok).map_err(failure)?;
        let all = || format!("{}/federation/credentials", endpoint.trim_end_matches('/'));
        let endpoint = self.environment.get("AWS_SSO_ENDPOINT").unwrap_or_else(all);
        let mut bearer = HeaderValue::from_str(token).map_err(|_| none())?;
        bearer.set_sensitive(true);
        let query = address::query(&[("role_name", role), ("account_id", account)]);
        let request = Request::get(format!("{endpoint}?{query}")).header("x-amz-sso_bearer_token", bearer);
        let request = request.body(Bytes::new()).map_err(|e| failure(e.to_string()))?;
        let answer = self.io.ask_service(request).map_err(passing)?;
        let status = answer.status();
        if !status.is_success() {
            let said = serde_json::from_slice::<Map<String, Value>>(answer.body()).unwrap_or_default();
            let words = line(said.get("message").and_then(Value::as_str).unwrap_or_default());
            let why = match status.as_u16() {
                401 => "the login has expired or was revoked".to_string(),
                403 | 404 => format!("the login does not allow role {role} in account {account}"),
                code => format!("status {code}"),
            };
            let why = if words.is_empty() { why } else { format!("{why}: {words}") };
            return Err(if status.is_server_error() || status.as_u16() == 429 { passing(why) } else { failure(why) });
        }
        let Exchanged { role_credentials: keys } =
            serde_json::from_slice(answer.body()).map_err(|_| failure("the answer has no credentials".into()))?;
        let expires = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(keys.expiration));
        Ok(Credential::new(keys.access_key_id, keys.secret_access_key, Some(keys.session_token), expires))
    }

    fn renewed(&self, region: &str, body: Zeroizing<String>) -> Result<Map<String, Value>, String> {
        let usual = || Endpoint::of_region(region).map(|s3| s3.to_string().replacen("://s3.", "://oidc.", 1));
        let endpoint = self.services.oidc.as_ref().map_or_else(usual, |uri| Ok(uri.to_string()))?;
        let request = Request::post(format!("{}/token", endpoint.trim_end_matches('/'))).header("content-type", "application/json");
        let request = request.body(Bytes::copy_from_slice(body.as_bytes())).map_err(|e| e.to_string())?;
        let answer = self.io.ask_service(request)?;
        let status = answer.status();
        let said = serde_json::from_slice::<Map<String, Value>>(answer.body()).unwrap_or_default();
        if status.is_success() && said.get("accessToken").is_some_and(Value::is_string) {
            return Ok(said);
        }
        let word = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
        let words = [word("error"), word("error_description")].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(": ");
        let words = if words.is_empty() { format!("status {}", status.as_u16()) } else { words };
        Err(line(&words))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exchanged {
    role_credentials: RoleKeys,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleKeys {
    access_key_id: String,
    secret_access_key: String,
    #[serde(default)]
    session_token: String,
    expiration: u64,
}

struct Login(Map<String, Value>);

impl Login {
    fn read(path: &Path) -> Option<Login> {
        serde_json::from_str(&contents(path).ok()?).ok().map(Login)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    fn ends(&self, name: &str) -> Option<u64> {
        // Older files have `UTC` at the end.
        let text = self.text(name)?.replace("UTC", "Z");
        u64::try_from(time::iso(&text)?.secs).ok()
    }

    /// The body of the request that renews it; `None` for a login that cannot be renewed.
    fn request(&self) -> Option<Zeroizing<String>> {
        let (id, secret, token) = (self.text("clientId")?, self.text("clientSecret")?, self.text("refreshToken")?);
        let body = json!({ "clientId": id, "clientSecret": secret, "grantType": "refresh_token", "refreshToken": token });
        Some(Zeroizing::new(body.to_string()))
    }

    /// The file with a new login in it. What else is there stays.
    fn with(mut self, answer: &Map<String, Value>, now: u64) -> Result<Zeroizing<String>> {
        let lasts = answer.get("expiresIn").and_then(Value::as_u64).unwrap_or(3600).min(365 * 86_400);
        let ends = Time { secs: i64::try_from(now + lasts).unwrap_or_default(), nanos: 0 };
        let ends = time::iso_text(ends).ok_or_else(|| failure("the clock is set wrong".into()))?;
        self.0.insert("expiresAt".into(), json!(ends));
        for name in ["accessToken", "refreshToken"] {
            if let Some(value) = answer.get(name).filter(|value| value.is_string()) {
                self.0.insert(name.into(), value.clone());
            }
        }
        Ok(Zeroizing::new(Value::Object(self.0).to_string()))
    }
}

fn cache_of(dir: &Path, session: &str) -> PathBuf {
    use sha1::{Digest, Sha1};
    dir.join(format!("{}.json", hex(&Sha1::digest(session.as_bytes()))))
}

fn path_bytes(path: &Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
