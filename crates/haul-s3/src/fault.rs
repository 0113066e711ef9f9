//! Errors of the service as haul's: kind, remedy, reason and hint.

use std::io::Read;
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Remedy};
use haul_core::retry::ASKED_MOST;
use http::StatusCode;

use super::call::Answer;
use super::xml;

#[derive(Clone, Debug, Default)]
pub struct Refusal {
    pub status: u16,
    /// The service's code (`NoSuchKey`), or the status' name where there was no document: an answer to HEAD has none.
    pub code: String,
    pub message: String,
    pub request_id: String,
    /// Where the bucket is, if the answer says it.
    pub region: Option<String>,
    pub wait: Option<Duration>,
    /// There was no document: all that is known is the status, and `code` is its name.
    pub bare: bool,
}

impl Refusal {
    /// Reads what an answer that is no success says, at most 64 KiB.
    pub fn of(mut answer: Answer) -> Refusal {
        let text = |name: &str| answer.header(name).map(str::to_string);
        let mut refusal = Refusal {
            status: answer.status.as_u16(),
            code: code_of(answer.status).to_string(),
            request_id: text("x-amz-request-id").unwrap_or_default(),
            region: text("x-amz-bucket-region"),
            wait: text("retry-after").and_then(|wait| wait.trim().parse().ok()).map(Duration::from_secs).map(|wait| wait.min(ASKED_MOST)),
            ..Refusal::default()
        };
        let mut document = Vec::new();
        // What cannot be read says nothing; the status does.
        let _ = answer.body.as_reader().take(64 << 10).read_to_end(&mut document);
        // Who is no object store, or speaks TLS and is not spoken to in it, says so in a line of text.
        if let Ok(text) = std::str::from_utf8(document.trim_ascii())
            && (1..200).contains(&text.len())
            && !text.starts_with('<')
        {
            refusal.message = haul_core::entry::show(text.as_bytes());
        }
        let said = xml::error(&document);
        if said.is_err() {
            // MinIO tells by headers what an answer to HEAD cannot hold.
            match answer.header("x-minio-error-code") {
                Some(code) => {
                    refusal.code = code.to_string();
                    refusal.message = answer.header("x-minio-error-desc").unwrap_or_default().trim_matches('"').to_string();
                }
                None => refusal.bare = refusal.message.is_empty(),
            }
        }
        if let Ok(said) = said {
            refusal.code = if said.code.is_empty() { refusal.code } else { said.code };
            refusal.message = said.message;
            refusal.request_id = if said.request_id.is_empty() { refusal.request_id } else { said.request_id };
            if !said.region.is_empty() {
                refusal.region = Some(said.region);
            }
        }
        refusal
    }

    /// Throttling and internal errors: the same request may work later.
    pub fn is_passing(&self) -> bool {
        matches!(
            self.code.as_str(),
            "SlowDown"
                | "SlowDownRead"
                | "SlowDownWrite"
                | "ServiceUnavailable"
                | "InternalError"
                | "RequestTimeout"
                | "ThrottlingException"
                | "Throttling"
                | "RequestLimitExceeded"
                | "BandwidthLimitExceeded"
                | "OperationAborted"
                | "ConditionalRequestConflict"
        ) || matches!(self.status, 429 | 500 | 502 | 503 | 504 | 509)
    }

    /// Whether the endpoint asks for fewer requests.
    pub fn is_throttling(&self) -> bool {
        self.code.starts_with("SlowDown") || self.code.starts_with("Throttl") || matches!(self.status, 429 | 503 | 509)
    }

    /// The credentials have expired and have to be renewed.
    pub fn is_expiry(&self) -> bool {
        matches!(self.code.as_str(), "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" | "RequestExpired")
    }

    /// The service does not accept the credentials, whatever they are asked for: Amazon's codes and those of STS, MinIO's
    /// (`InvalidTokenId`), Ceph's (`UserSuspended`) and Google's (`InvalidSecurity`).
    pub fn is_refused_key(&self) -> bool {
        matches!(
            self.code.as_str(),
            "InvalidAccessKeyId"
                | "SignatureDoesNotMatch"
                | "InvalidToken"
                | "InvalidTokenId"
                | "InvalidClientTokenId"
                | "InvalidSecurity"
                | "UnrecognizedClientException"
                | "NotSignedUp"
                | "AccountProblem"
                | "UserSuspended"
        )
    }

    /// It may be that credentials have expired: an answer to HEAD is 400 then, and some services answer 403.
    pub fn may_be_expiry(&self) -> bool {
        self.bare && matches!(self.status, 400 | 403)
    }

    pub fn is_skew(&self) -> bool {
        self.code == "RequestTimeTooSkewed"
    }

    /// The service does not know this checksum, or this framing.
    pub fn rejects_checksum(&self) -> bool {
        self.status == 501
            || matches!(
                self.code.as_str(),
                "NotImplemented" | "XNotImplemented" | "MalformedTrailerError" | "InvalidTrailer" | "XAmzContentSHA256Mismatch"
            )
            || (self.status == 400
                && matches!(self.code.as_str(), "InvalidRequest" | "InvalidArgument" | "BadRequest")
                && ["checksum", "trailer", "algorithm", "content-encoding", "sha256"]
                    .iter()
                    .any(|word| self.message.to_lowercase().contains(word)))
    }

    /// The error for an operation on one object or bucket.
    pub fn error(&self, op: &'static str, bucket: &str) -> Error {
        use ErrorKind as K;
        let kind = match (self.code.as_str(), self.status) {
            ("NoSuchKey" | "NoSuchVersion" | "NoSuchUpload" | "NotFound" | "NoSuchBucket", _) => K::NotFound,
            ("PreconditionFailed" | "InvalidRange" | "InvalidPartNumber", _) => K::Changed,
            ("BadDigest" | "InvalidDigest" | "XAmzContentChecksumMismatch" | "ChecksumMismatch" | "XMinioContentChecksumMismatch", _) => {
                K::Corrupt
            }
            ("XMinioStorageFull" | "InsufficientStorage" | "InsufficientCapacity" | "NotEnoughSpace", _) | (_, 507) => K::NoSpace,
            ("QuotaExceeded" | "XMinioAdminBucketQuotaExceeded" | "TooManyBuckets", _) => K::Quota,
            ("KeyTooLongError" | "KeyTooLong" | "InvalidBucketName" | "XMinioInvalidObjectName" | "InvalidURI", _) => K::BadName,
            ("BucketAlreadyExists" | "BucketAlreadyOwnedByYou" | "BucketNotEmpty", _) => K::Exists,
            ("NotImplemented" | "XNotImplemented" | "MethodNotAllowed", _) => K::Unsupported,
            // Nothing else would fare better: the run's, not an object's.
            _ if self.is_refused_key() => K::Broken,
            _ => match self.status {
                401 | 403 => K::Denied,
                404 => K::NotFound,
                405 | 501 => K::Unsupported,
                409 => K::Exists,
                412 | 416 => K::Changed,
                _ => K::Other,
            },
        };
        let remedy = match kind {
            K::Corrupt => Remedy::Again,
            // Parts that the service lost are sent again once the upload has been looked at.
            _ if self.code == "InvalidPart" => Remedy::Reopen,
            _ if self.is_expiry() || self.is_skew() => Remedy::Again,
            _ if self.is_passing() => Remedy::After(self.wait.unwrap_or_default()),
            _ => Remedy::None,
        };
        let mut error = Error::new(kind, op).remedy_is(remedy).because(self.reason(bucket));
        if let Some(hint) = self.hint(bucket) {
            error = error.hint(hint);
        }
        error
    }

    pub fn reason(&self, bucket: &str) -> String {
        let (_, words, _) = of_status(self.status);
        if self.bare && !words.is_empty() {
            return format!("{words} (status {})", self.status);
        }
        let mut reason = match (self.code.as_str(), of_code(&self.code).0) {
            ("NoSuchBucket", _) => return format!("there is no bucket {bucket}"),
            ("NoSuchKey" | "NotFound" | "NoSuchUpload" | "PreconditionFailed", words) => return words.into(),
            (code, "") if self.message.is_empty() => code.into(),
            (code, "") => format!("{code}: {}", self.message),
            (code, words) => format!("{words} ({code})"),
        };
        if matches!(self.status, 500..) && !self.request_id.is_empty() {
            reason.push_str(&format!(" (request {})", self.request_id));
        }
        reason
    }

    fn hint(&self, bucket: &str) -> Option<String> {
        let (_, _, hint) = of_status(self.status);
        let hint = match of_code(&self.code).1 {
            _ if self.bare && !hint.is_empty() => hint,
            _ if self.code == "NoSuchBucket" => {
                return Some(format!("make it with `haul mb s3://{bucket}`, or check the endpoint in the first line"));
            }
            "" if self.message.contains("HTTPS server") => "write https:// in the endpoint's address",
            hint => hint,
        };
        Some(hint.to_string()).filter(|hint| !hint.is_empty())
    }
}

/// What `NoSuchUpload` means.
pub(super) const NO_UPLOAD: &str = "the unfinished upload is not there any more";

/// What a code of the service means, and what can be done about it; empty where nothing is known.
fn of_code(code: &str) -> (&'static str, &'static str) {
    match code {
        "NoSuchKey" | "NotFound" => ("no such object", ""),
        "NoSuchUpload" => (NO_UPLOAD, ""),
        "InvalidPart" => ("the service has lost parts of the upload", ""),
        "PreconditionFailed" => ("it has changed meanwhile", ""),
        "BadDigest" | "XAmzContentChecksumMismatch" | "ChecksumMismatch" => ("the service received other bytes than were sent", ""),
        "SignatureDoesNotMatch" => {
            ("the secret key is not the one that belongs to the access key", "check AWS_SECRET_ACCESS_KEY, the profile and the region")
        }
        "InvalidAccessKeyId" => ("the service does not know the access key", "check AWS_ACCESS_KEY_ID, the profile and the endpoint"),
        "InvalidToken" | "InvalidTokenId" | "InvalidClientTokenId" => (
            "the service does not know the session token, or it belongs to another key",
            "check AWS_SESSION_TOKEN, which goes only with the keys that it was issued with, the profile and the endpoint",
        ),
        "AccessDenied" | "Forbidden" | "AllAccessDisabled" => {
            ("access denied", "the account lacks permission; for a public bucket use --no-sign-request, for another account --profile")
        }
        "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" => (
            "the credentials have expired",
            "log in again (`aws sso login`, or what gave the token), then run the same command: it resumes",
        ),
        "RequestTimeTooSkewed" => ("this machine's clock and the service's are too far apart", "set this machine's clock"),
        "EntityTooLarge" => ("too large for one request", ""),
        "InvalidBucketName" => ("", "3 to 63 lower-case letters, digits, dots and hyphens"),
        "KeyTooLongError" | "KeyTooLong" => ("", "a key has at most 1,024 bytes"),
        "InvalidObjectState" => ("", "the object is in an archive class: restore it first"),
        _ => ("", ""),
    }
}

/// An answer without a document: the code that stands for it, what it means where the code says too little, and what can be done.
fn of_status(status: u16) -> (&'static str, &'static str, &'static str) {
    match status {
        301 | 307 | 308 => (
            "PermanentRedirect",
            "the bucket is somewhere else, and the service does not say where",
            "name the region with --region, or the endpoint with --endpoint-url",
        ),
        400 => (
            "BadRequest",
            "the service refuses the request and does not say why",
            "expired credentials, another region and an object with a key of its own (--sse-c) are answered so: \
             check the profile, the region and the key",
        ),
        401 => ("Unauthorized", "the service requires credentials", "check the profile and AWS_ACCESS_KEY_ID"),
        403 => (
            "Forbidden",
            "access denied",
            "the account lacks permission, or may not list the bucket and the object does not exist; \
             for a public bucket use --no-sign-request, for another account --profile",
        ),
        404 => ("NotFound", "", ""),
        405 => ("MethodNotAllowed", "the service does not allow this request here", ""),
        409 => ("Conflict", "another operation is in progress, or something stands in the way", ""),
        411 => ("MissingContentLength", "", ""),
        412 => ("PreconditionFailed", "", ""),
        416 => ("InvalidRange", "", ""),
        429 => ("TooManyRequests", "too many requests", ""),
        501 => ("NotImplemented", "the service does not know this request", ""),
        502 | 504 => ("InternalError", "a gateway does not reach the service", ""),
        503 => ("ServiceUnavailable", "the service is overloaded or down", ""),
        507 => ("InsufficientStorage", "", ""),
        500.. => ("InternalError", "the service failed", ""),
        _ => ("UnexpectedAnswer", "", ""),
    }
}

/// The code for an answer without a document.
pub fn code_of(status: StatusCode) -> &'static str {
    of_status(status.as_u16()).0
}

/// A document that is not the one that was to come, or an error that came with a status of success.
pub fn document(op: &'static str, bucket: &str, fault: xml::Fault) -> Error {
    match fault {
        xml::Fault::Service(said) => {
            let refusal =
                Refusal { status: 200, code: said.code, message: said.message, request_id: said.request_id, ..Refusal::default() };
            refusal.error(op, bucket)
        }
        other => {
            Error::new(ErrorKind::Other, op).because(other.to_string()).hint("is this the address of an object store? See --endpoint-url")
        }
    }
}

#[cfg(test)]
mod tests;
