//! The places of credentials, looked at in the order of the AWS command line.
//!
//! ```text
//! variables            unless --profile was given
//! role of the profile  role_arn with source_profile or credential_source; the source is looked for in the same way
//! web identity         variables, then the profile
//! SSO                  the profile; the token that `aws sso login` left
//! keys                 of the profile in ~/.aws/credentials
//! credential_process   of the profile
//! keys                 of the profile in ~/.aws/config
//! container, instance  their own servers
//! ```
//!
//! Files are read here: the library's providers (`reqsign-aws-core`) know neither SSO sessions nor roles of profiles, and take only
//! AWS's own roles. They fetch the rest.

mod assume;
mod sso;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use http::Uri;
use reqsign_aws_core as aws;
use reqsign_core::{Context, ProvideCredential};

use super::io::{CredentialIo, Services, block_on, words};
use super::profile::{Profiles, Section};
use super::{Account, Credential, Environment, Named};
use crate::address::Endpoint;

/// A profile names a profile names a profile: no more than this many.
const DEEPEST: usize = 8;

/// The most characters of another's message that ours repeat.
const LONGEST: usize = 400;

/// A credential and, for people, where it was.
pub(super) struct Found {
    pub(super) credential: Arc<Credential>,
    pub(super) place: String,
}

/// The first credential found. A place that is configured but fails is an error; others are passed. If there is none the error, of
/// kind `Denied`, lists the places.
pub(super) fn find(account: &Account) -> Result<Found> {
    let environment = &account.asked.environment;
    let profiles = Profiles::read(environment)?;
    let name = account.profile.name.as_str();
    let with_variables = account.profile.named != Named::Flag;
    let service = |service| service_endpoint(account, &profiles, name, service);
    let services = Services { sts: service("sts")?, sso: service("sso")?, oidc: service("sso_oidc")? };
    let io = CredentialIo::new(account.agent_config(&Uri::from_static("https://sts.amazonaws.com")), services.clone());
    let region = account.region().map(str::to_string);
    let chain = Chain { account, environment, profiles: &profiles, io, services, region };
    let mut looked = Vec::new();

    if with_variables {
        if let Some(found) = variables(environment)? {
            return Ok(found);
        }
        looked.push("the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".to_string());
    }
    if let Some(found) = chain.role(name, &mut Vec::new())? {
        return Ok(found);
    }
    if with_variables {
        if let Some(found) = chain.identity_of_variables()? {
            return Ok(found);
        }
        looked.push("AWS_WEB_IDENTITY_TOKEN_FILE".to_string());
    }
    if let Some(found) = chain.stored(name)? {
        return Ok(found);
    }
    let files = [(&profiles.credentials, profiles.in_credentials(name)), (&profiles.config, profiles.in_config(name))];
    looked.extend(files.map(|(file, section)| {
        let why = match (&file.missing, section) {
            (Some(words), _) => words.clone(),
            (None, None) => format!("no profile {name}"),
            (None, Some(_)) => format!("nothing in profile {name}"),
        };
        format!("{} ({why})", file.path.display())
    }));
    if let Some(found) = chain.container()? {
        return Ok(found);
    }
    looked.push("the container's server (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is not set)".to_string());
    match chain.instance()? {
        Ok(found) => return Ok(found),
        Err(why) => looked.push(format!("the instance's server ({why})")),
    }
    let words = format!("no credentials found; searched, in this order: {}", looked.join(", "));
    let hint = "run `aws configure`, name a profile with --profile, or read a public bucket with --no-sign-request";
    Err(failure(words).hint(hint))
}

fn variables(environment: &Environment) -> Result<Option<Found>> {
    let id = environment.get("AWS_ACCESS_KEY_ID").or_else(|| environment.get("AWS_ACCESS_KEY"));
    let secret = environment.get("AWS_SECRET_ACCESS_KEY").or_else(|| environment.get("AWS_SECRET_KEY"));
    let (id, secret) = match (id, secret) {
        (Some(id), Some(secret)) => (id, secret),
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(half("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not")),
        (None, Some(_)) => return Err(half("AWS_SECRET_ACCESS_KEY is set and AWS_ACCESS_KEY_ID is not")),
    };
    let token = environment.first(&["AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"]).map(|(_, token)| token);
    let credential = Arc::new(Credential::new(id, secret, token, None));
    Ok(Some(Found { credential, place: "the environment".to_string() }))
}

/// The keys that stand in a profile itself.
fn keys(section: &Section, profile: &str) -> Result<Option<Credential>> {
    match (section.get("aws_access_key_id"), section.get("aws_secret_access_key")) {
        (Some(id), Some(secret)) => {
            let token = section.get("aws_session_token").or_else(|| section.get("aws_security_token"));
            Ok(Some(Credential::new(id, secret, token.map(str::to_string), None)))
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err(half(&format!("profile {profile} has aws_access_key_id and no aws_secret_access_key"))),
        (None, Some(_)) => Err(half(&format!("profile {profile} has aws_secret_access_key and no aws_access_key_id"))),
    }
}

fn half(words: &str) -> Error {
    failure(words.to_string())
}

fn failure(words: String) -> Error {
    Error::new(ErrorKind::Denied, "find credentials").because(words)
}

/// Where a service is, if not where AWS has it: the settings for it alone, then those for all services.
fn service_endpoint(account: &Account, profiles: &Profiles, profile: &str, service: &'static str) -> Result<Option<Uri>> {
    let environment = &account.asked.environment;
    let (own, label) = match service {
        "sts" => ("AWS_ENDPOINT_URL_STS", "STS"),
        "sso" => ("AWS_ENDPOINT_URL_SSO", "SSO"),
        _ => ("AWS_ENDPOINT_URL_SSO_OIDC", "SSO OIDC"),
    };
    let of_profile = || profiles.service_endpoint(profile, service).map(str::to_string);
    // As the AWS command line has it. Who names a server of Amazon's there means S3 alone.
    let of_all = || {
        let variable = environment.get("AWS_ENDPOINT_URL").filter(|_| !account.asked.profile_alone);
        let url = variable.or_else(|| profiles.get(profile, "endpoint_url").map(str::to_string));
        let is_meant = service == "sts" && !super::ignores_endpoints(environment, profiles, profile);
        url.filter(|url| is_meant && Endpoint::parse(url).is_some_and(|endpoint| !endpoint.is_aws()))
    };
    let Some(url) = environment.get(own).or_else(of_profile).or_else(of_all) else { return Ok(None) };
    match url.parse::<Uri>() {
        Ok(uri) if uri.scheme().is_some() && uri.host().is_some() => Ok(Some(uri)),
        _ => Err(Error::new(ErrorKind::Usage, "find credentials").because(format!("{url:?} is no endpoint for {label}"))),
    }
}

struct Chain<'a> {
    account: &'a Account,
    services: Services,
    environment: &'a Environment,
    profiles: &'a Profiles,
    io: CredentialIo,
    region: Option<String>,
}

impl Chain<'_> {
    /// What a profile leads to, by a role or by what is stored.
    fn of_profile(&self, name: &str, above: &mut Vec<String>) -> Result<Option<Found>> {
        match self.role(name, above)? {
            Some(found) => Ok(Some(found)),
            None => self.stored(name),
        }
    }

    /// The role that a profile takes on with the credential of another place.
    fn role(&self, name: &str, above: &mut Vec<String>) -> Result<Option<Found>> {
        let get = |key| self.profiles.get(name, key);
        let Some(arn) = get("role_arn") else {
            return Ok(None);
        };
        if above.len() >= DEEPEST || above.iter().any(|passed| passed == name) {
            return Err(failure(format!("the profiles {} name each other as source_profile in a loop", above.join(", "))));
        }
        let base = match (get("source_profile"), get("credential_source")) {
            (Some(source), _) if source == name => self.stored(name)?,
            (Some(source), _) => {
                above.push(name.to_string());
                self.of_profile(source, above)?
            }
            (None, Some("Environment")) => variables(self.environment)?,
            (None, Some("EcsContainer")) => self.container()?,
            (None, Some("Ec2InstanceMetadata")) => self.instance()?.ok(),
            (None, Some(other)) => return Err(failure(format!("profile {name} has credential_source = {other}, which is not known"))),
            (None, None) if get("web_identity_token_file").is_some() => return Ok(None),
            (None, None) => {
                return Err(failure(format!("profile {name} has role_arn, and neither source_profile nor credential_source")));
            }
        };
        let base = base.ok_or_else(|| failure(format!("the source of the role of profile {name} has no credentials")))?;
        let place = format!("role {arn} of profile {name}, by {}", base.place);
        let credential = self.assume(name, arn, &base.credential).map_err(|e| {
            let reason = format!("{place}: {}", e.reason());
            e.because(reason)
        })?;
        Ok(Some(Found { credential: Arc::new(credential), place }))
    }

    fn identity_of_variables(&self) -> Result<Option<Found>> {
        let get = |name| self.environment.get(name);
        let (Some(file), Some(arn)) = (get("AWS_WEB_IDENTITY_TOKEN_FILE"), get("AWS_ROLE_ARN")) else {
            return Ok(None);
        };
        self.identity(arn, file, get("AWS_ROLE_SESSION_NAME"), "the environment").map(Some)
    }

    /// The role that is given for a token in a file, which is read anew each time: its owner writes new ones.
    fn identity(&self, arn: String, file: String, session: Option<String>, of: &str) -> Result<Found> {
        let place = format!("role {arn} by the web identity of {of}");
        let mut provider = aws::AssumeRoleWithWebIdentityCredentialProvider::with_config(arn, self.environment.path(&file))
            .with_role_session_name(session.unwrap_or_else(|| "haul".to_string()));
        if let Some(region) = &self.region {
            provider = provider.with_region(region.clone()).with_regional_sts_endpoint();
        }
        self.asked(&provider, &self.io.context(), place)
    }

    fn stored(&self, name: &str) -> Result<Option<Found>> {
        let get = |key| self.profiles.get(name, key);
        if let (Some(arn), Some(file)) = (get("role_arn"), get("web_identity_token_file")) {
            let session = get("role_session_name").map(str::to_string);
            return self.identity(arn.to_string(), file.to_string(), session, &format!("profile {name}")).map(Some);
        }
        if let (Some(account), Some(role)) = (get("sso_account_id"), get("sso_role_name")) {
            return self.sso(name, account, role).map(Some);
        }
        let of_file = |file: &super::profile::File, section: Option<&Section>| -> Result<Option<Found>> {
            let credential = section.map(|section| keys(section, name)).transpose()?.flatten();
            let place = format!("profile {name} in {}", file.path.display());
            Ok(credential.map(|credential| Found { credential: Arc::new(credential), place }))
        };
        if let Some(found) = of_file(&self.profiles.credentials, self.profiles.in_credentials(name))? {
            return Ok(Some(found));
        }
        if let Some(command) = get("credential_process") {
            return self.program(name, command).map(Some);
        }
        if let Some(found) = of_file(&self.profiles.config, self.profiles.in_config(name))? {
            return Ok(Some(found));
        }
        if get("login_session").is_some() {
            return self.login(name).map(Some);
        }
        Ok(None)
    }

    /// The role that a login by `aws sso login` allows. The login's file is named after the session, or in the older form of
    /// settings after the start address.
    fn sso(&self, name: &str, account: &str, role: &str) -> Result<Found> {
        let get = |key| self.profiles.get(name, key);
        let missing = |what: &str| failure(format!("profile {name} has sso_account_id, and {what}"));
        let (login, region) = match get("sso_session") {
            Some(session) => {
                let section = self.profiles.sso_session(session);
                let section = section.ok_or_else(|| missing(&format!("there is no section [sso-session {session}]")))?;
                (session, section.get("sso_region"))
            }
            None => (get("sso_start_url").ok_or_else(|| missing("neither sso_session nor sso_start_url"))?, get("sso_region")),
        };
        let region = region.ok_or_else(|| missing("no sso_region"))?;
        if get("sso_session").is_some() {
            self.renew_login(login, region).map_err(|e| e.hint(format!("run `aws sso login --profile {name}`")))?;
        }
        let place = format!("SSO role {role} of profile {name}");
        let found = self.role_of_login(login, region, account, role).map_err(|e| {
            let reason = format!("{place}: {}", e.reason());
            e.because(reason)
        });
        match found {
            Ok(credential) => Ok(Found { credential: Arc::new(credential), place }),
            Err(error) if error.remedy() == Remedy::None => Err(error.hint(format!("run `aws sso login --profile {name}`"))),
            Err(error) => Err(error),
        }
    }

    /// The login of `aws login`, which only the AWS command line can renew: it is asked.
    fn login(&self, name: &str) -> Result<Found> {
        let command = ["aws", "configure", "export-credentials", "--profile", name, "--format", "process"].map(str::to_string);
        let provider = aws::ProcessCredentialProvider::new().with_command("aws");
        let found = self.asked(&provider, &self.io.context_with(command.into()), format!("login_session of profile {name}"));
        found.map_err(|error| error.hint(format!("run `aws login --profile {name}`; the AWS command line must be installed")))
    }

    fn program(&self, name: &str, command: &str) -> Result<Found> {
        let words = words(command).ok_or_else(|| failure(format!("credential_process of profile {name} is no command")))?;
        let provider = aws::ProcessCredentialProvider::new().with_command("credential_process");
        self.asked(&provider, &self.io.context_with(words), format!("credential_process of profile {name}"))
    }

    fn container(&self) -> Result<Option<Found>> {
        let get = |name| self.environment.get(name);
        let provider = aws::ECSCredentialProvider::new();
        let provider = match (get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), get("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
            (Some(relative), _) => provider.with_relative_uri(relative),
            (None, Some(full)) if is_own_server(&full) => provider.with_endpoint(full),
            (None, Some(_)) => {
                let words = "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or this machine's or the container's own server";
                return Err(failure(words.to_string()));
            }
            (None, None) => return Ok(None),
        };
        self.asked(&provider, &self.io.context(), "the container's server".to_string()).map(Some)
    }

    /// The instance's credential, or why there is none: most machines are no instances.
    fn instance(&self) -> Result<Result<Found, String>> {
        if self.environment.is_true("AWS_EC2_METADATA_DISABLED") {
            return Ok(Err("AWS_EC2_METADATA_DISABLED is set".to_string()));
        }
        let six = self.environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
        let usual = if six { "http://[fd00:ec2::254]" } else { "http://169.254.169.254" };
        let endpoint = self.environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| usual.to_string());
        let provider = aws::IMDSv2CredentialProvider::new().with_endpoint(endpoint.trim_end_matches('/'));
        let found = self.asked(&provider, &self.io.context(), "the instance's server".to_string());
        Ok(found.map_err(|error| error.reason()))
    }

    /// Asks a provider that is set up: it must have an answer.
    fn asked<P>(&self, provider: &P, context: &Context, place: String) -> Result<Found>
    where
        P: ProvideCredential<Credential = aws::Credential>,
    {
        let answer = block_on(provider.provide_credential(context));
        let unreached = self.io.last_failure();
        match answer {
            Ok(Some(found)) => {
                let expires = found.expires_in.map(|end| end.as_system_time());
                let credential = Credential::new(found.access_key_id, found.secret_access_key, found.session_token, expires);
                if credential.expires().is_some_and(|end| end <= SystemTime::now()) {
                    return Err(failure(format!("{place}: the credentials have expired already")));
                }
                Ok(Found { credential: Arc::new(credential), place })
            }
            Ok(None) => Err(failure(format!("{place}: has none"))),
            Err(error) => {
                let failed = if error.is_retryable() || unreached.is_some() { passing } else { failure };
                Err(failed(format!("{place}: {}", unreached.unwrap_or_else(|| described(&error)))))
            }
        }
    }
}

/// An error with its causes.
fn described(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    line(&text)
}

/// Another's message, made fit for a line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect::<String>().trim().to_string()
}

/// A failure that may pass: worth another try.
fn passing(words: String) -> Error {
    failure(words).kind_is(ErrorKind::Other).remedy_is(Remedy::After(Duration::from_secs(1)))
}

/// Whether a container's variable names a server that may be asked in the clear: a wrong address would receive the token.
fn is_own_server(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or("").trim_start_matches('[').trim_end_matches(']');
    let is_local = host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| {
            let own = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
            address.is_loopback() || own.iter().any(|known| known.parse() == Ok(address))
        });
    match uri.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => is_local,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
