//! Roles: AssumeRole, asked of AWS's STS or of the object store's own.
//!
//! The library takes only roles of AWS's accounts, and sends GET, which MinIO and Ceph do not answer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use haul_core::error::Result;
use haul_core::hash::hex;
use http::{Method, Request, Uri};
use ring::digest;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::super::io::Services;
use super::super::profile::contents;
use super::super::{Credential, DEFAULT_REGION, EARLY};
use super::{Chain, failure, line, passing};
use crate::address::{self, Endpoint};
use crate::sign::{Payload, Signer};
use crate::state_file;
use crate::xml;
use haul_net::http_client::time;
use haul_net::terminal;

/// How long a role lasts unless the profile says otherwise: AWS's own default.
const HOUR: &str = "3600";

struct Wanted {
    fields: Vec<(&'static str, String)>,
    serial: Option<String>,
    named: bool,
}

impl Chain<'_> {
    /// The role of a profile, taken on with a credential of another place.
    pub(super) fn assume(&self, name: &str, arn: &str, base: &Credential) -> Result<Credential> {
        let wanted = self.wanted(name, arn)?;
        // As the AWS command line keeps them, so that a code is not needed for each command.
        let cache = wanted.serial.is_some().then(|| self.environment.path(&format!("~/.aws/cli/cache/{}.json", wanted.cache_name())));
        if let Some(kept) = cache.as_deref().and_then(kept) {
            return Ok(kept);
        }
        let code = wanted.serial.as_deref().map(|serial| self.mfa_code(name, serial)).transpose()?;
        let endpoint = self.sts_of(arn)?;
        let answer = self.ask_sts(&endpoint, &wanted, code.as_deref().map(String::as_str), base)?;
        if let Some(path) = cache {
            keep(&path, &answer, arn);
        }
        let expires = time::iso(&answer.expiration).and_then(moment);
        if expires.is_some_and(|end| end <= SystemTime::now()) {
            return Err(failure("the credentials have expired already".into()));
        }
        Ok(Credential::new(answer.access_key_id, answer.secret_access_key, answer.session_token, expires))
    }

    fn wanted(&self, name: &str, arn: &str) -> Result<Wanted> {
        if !is_arn(arn) {
            let words = format!("role_arn of profile {name} is no ARN; they read like arn:aws:iam::123456789012:role/NAME");
            return Err(failure(words));
        }
        let get = |key| self.profiles.get(name, key).map(str::to_string);
        let session = get("role_session_name");
        let named = session.is_some();
        let mut fields = vec![
            ("Action", "AssumeRole".to_string()),
            ("Version", "2011-06-15".to_string()),
            ("RoleArn", arn.to_string()),
            ("RoleSessionName", session.unwrap_or_else(|| "haul".to_string())),
        ];
        fields.extend(get("external_id").map(|id| ("ExternalId", id)));
        let seconds = get("duration_seconds");
        if seconds.as_ref().is_some_and(|seconds| seconds.parse::<u32>().is_err()) {
            return Err(failure(format!("duration_seconds of profile {name} is no number")));
        }
        fields.push(("DurationSeconds", seconds.unwrap_or_else(|| HOUR.to_string())));
        Ok(Wanted { fields, serial: get("mfa_serial"), named })
    }

    /// The code that the command line has, once, or that somebody types.
    fn mfa_code(&self, name: &str, serial: &str) -> Result<Zeroizing<String>> {
        if let Some(code) = &self.account.asked.mfa_code
            && !self.account.code_used.swap(true, Ordering::Relaxed)
        {
            return Ok(Zeroizing::new(code.clone()));
        }
        let no_terminal = || {
            let e = failure(format!("the role of profile {name} requires MFA, and there is no terminal to ask for the code"));
            e.hint("give the digits that the device shows with --mfa-code")
        };
        let code = terminal::ask(&format!("MFA code of {}: ", haul_core::entry::show(serial.as_bytes())), no_terminal)?;
        match code.trim().is_empty() {
            true => Err(failure(format!("the role of profile {name} requires MFA, and no code was typed"))),
            false => Ok(Zeroizing::new(code.trim().to_string())),
        }
    }

    /// Where a role is asked for: where the settings say, and for one that AWS cannot know at the object store itself.
    fn sts_of(&self, arn: &str) -> Result<Uri> {
        if let Services { sts: Some(sts), .. } = &self.services {
            return Ok(sts.clone());
        }
        let own = self.account.endpoint().filter(|endpoint| !endpoint.is_aws() && !is_of_aws(arn)).map(ToString::to_string);
        let usual = || match &self.region {
            None => Ok("https://sts.amazonaws.com".to_string()),
            Some(region) => Endpoint::of_region(region).map(|s3| s3.to_string().replacen("://s3.", "://sts.", 1)),
        };
        let url = own.map_or_else(usual, Ok).map_err(failure)?;
        url.parse().map_err(|_| failure(format!("{url:?} is no endpoint for STS")))
    }

    fn ask_sts(&self, endpoint: &Uri, wanted: &Wanted, code: Option<&str>, base: &Credential) -> Result<Answer> {
        let mut fields: Vec<(&str, &str)> = wanted.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if let (Some(serial), Some(code)) = (&wanted.serial, code) {
            fields.extend([("SerialNumber", serial.as_str()), ("TokenCode", code)]);
        }
        let body = Zeroizing::new(address::query(&fields));
        let bad = |e: http::Error| failure(e.to_string());
        let uri: Uri =
            format!("{}/", endpoint.to_string().trim_end_matches('/')).parse().map_err(|e: http::uri::InvalidUri| bad(e.into()))?;
        let hash = hex(digest::digest(&digest::SHA256, body.as_bytes()).as_ref());
        let request = Request::post(&uri).header("content-type", "application/x-www-form-urlencoded; charset=utf-8");
        let mut request = request.body(Bytes::copy_from_slice(body.as_bytes())).map_err(bad)?;
        let signer = Signer::of_service(self.region.clone().unwrap_or_else(|| DEFAULT_REGION.to_string()), "sts");
        let base = Arc::new(Credential::new(base.access_key(), base.secret(), base.token().map(str::to_string), None));
        signer.sign(&Method::POST, &uri, request.headers_mut(), Payload::Hash(&hash), &base, SystemTime::now())?;
        let answer = self.io.ask_service(request).map_err(passing)?;
        let (status, body) = (answer.status(), answer.into_body());
        if status.is_success() {
            return read(&body);
        }
        let said = match xml::error(&body) {
            Ok(said) if said.message.is_empty() => said.code,
            Ok(said) => format!("{}: {}", said.code, said.message),
            Err(_) => format!("status {}", status.as_u16()),
        };
        let refused = if status.is_server_error() || status.as_u16() == 429 { passing } else { failure };
        Err(refused(line(&said)))
    }
}

impl Wanted {
    /// The name that the AWS command line gives to the file of such a role.
    fn cache_name(&self) -> String {
        use sha1::{Digest, Sha1};
        // In the order of their names, as the AWS command line has them, which leaves out unset ones.
        let mut named: Vec<(&str, Value)> = self
            .fields
            .iter()
            .filter(|(name, value)| match *name {
                "Action" | "Version" => false,
                "RoleSessionName" => self.named,
                "DurationSeconds" => value != HOUR,
                _ => true,
            })
            .map(|(name, value)| match (*name, value.parse::<u32>()) {
                ("DurationSeconds", Ok(seconds)) => (*name, json!(seconds)),
                _ => (*name, json!(value)),
            })
            .collect();
        named.extend(self.serial.as_ref().map(|serial| ("SerialNumber", json!(serial))));
        named.sort_by_key(|(name, _)| *name);
        let pairs: Vec<String> = named.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        hex(&Sha1::digest(format!("{{{}}}", pairs.join(", ")).as_bytes()))
    }
}

/// `arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE`, of visible characters.
fn is_arn(arn: &str) -> bool {
    arn.len() <= 2048 && arn.bytes().all(|byte| byte.is_ascii_graphic()) && arn.starts_with("arn:") && arn.splitn(6, ':').count() == 6
}

/// Whether a role can be one of AWS: Ceph's are of tenants, MinIO's of a partition of its own.
fn is_of_aws(arn: &str) -> bool {
    let mut fields = arn.splitn(6, ':').skip(1);
    let (partition, account) = (fields.next().unwrap_or_default(), fields.nth(2).unwrap_or_default());
    (partition == "aws" || partition.starts_with("aws-")) && account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit())
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    access_key_id: String,
    secret_access_key: String,
    #[serde(default)]
    session_token: Option<String>,
    #[serde(default)]
    expiration: String,
}

fn read(body: &[u8]) -> Result<Answer> {
    #[derive(Deserialize)]
    struct Response {
        #[serde(rename = "AssumeRoleResult")]
        result: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        #[serde(rename = "Credentials")]
        credentials: Answer,
    }
    let none = || failure("the answer has no credentials".into());
    let text = std::str::from_utf8(body).map_err(|_| none())?;
    let response: Response = quick_xml::de::from_str(text).map_err(|_| none())?;
    Ok(response.result.credentials)
}

fn moment(time: haul_core::entry::Time) -> Option<SystemTime> {
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(time.secs).ok()?))
}

/// What an earlier command has left, if it still serves.
fn kept(path: &Path) -> Option<Credential> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Kept {
        credentials: Answer,
    }
    let Kept { credentials } = serde_json::from_str(&contents(path).ok()?).ok()?;
    // The AWS command line writes `UTC` at the end.
    let expires = time::iso(&credentials.expiration.replace("UTC", "Z")).and_then(moment)?;
    let Answer { access_key_id, secret_access_key, session_token, .. } = credentials;
    (expires > SystemTime::now() + EARLY).then(|| Credential::new(access_key_id, secret_access_key, session_token, Some(expires)))
}

fn keep(path: &Path, answer: &Answer, arn: &str) {
    let credentials: Map<String, Value> = [
        ("AccessKeyId", json!(answer.access_key_id)),
        ("SecretAccessKey", json!(answer.secret_access_key)),
        ("SessionToken", json!(answer.session_token)),
        ("Expiration", json!(answer.expiration)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), value))
    .collect();
    let text = Zeroizing::new(json!({ "Credentials": credentials, "AssumedRoleUser": { "Arn": arn } }).to_string());
    // Without it the next command asks for another code.
    let _ = state_file::replace_secret(path, text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_of_aws_are_told_from_those_of_others() {
        for (arn, is, of_aws) in [
            ("arn:aws:iam::123456789012:role/path/name", true, true),
            ("arn:aws-cn:iam::123456789012:role/r", true, true),
            ("arn:aws:iam::tenant:role/r", true, false),
            ("arn:aws:iam:::role/r", true, false),
            ("arn:minio:iam:::role/idmp-x", true, false),
            ("arn:aws:iam", false, false),
            ("role/r", false, false),
            ("arn:aws:iam::1: role/r", false, false),
        ] {
            assert_eq!((is_arn(arn), is && is_of_aws(arn)), (is, of_aws), "{arn}");
        }
    }

    #[test]
    fn the_cache_has_the_name_that_the_aws_command_line_gives_it() {
        let fields = |more: &[(&'static str, &str)]| {
            let all = [("Action", "AssumeRole"), ("RoleArn", "arn:aws:iam::123456789012:role/r"), ("RoleSessionName", "haul")];
            let all = all.iter().chain(more).map(|(name, value)| (*name, value.to_string()));
            Wanted { fields: all.collect(), serial: Some("arn:aws:iam::123456789012:mfa/me".into()), named: false }
        };
        // python3 -c 'hashlib.sha1(json.dumps({"RoleArn": ..., "SerialNumber": ...}, sort_keys=True).encode()).hexdigest()'
        assert_eq!(fields(&[("DurationSeconds", HOUR)]).cache_name(), "9a50c81ee065c24cf36f0972df6e9b7719455d8c");
        let more = Wanted { named: true, ..fields(&[("ExternalId", "x-1"), ("DurationSeconds", "900")]) };
        assert_eq!(more.cache_name(), "0ead2685e8a858e7ebbd0a48ba73877cc8926e71");
    }
}
