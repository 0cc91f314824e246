# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An authority of a cluster's own and the certificates that it signs. cryptography is a requirement of ansible-core."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

# always there, but not where ansible-test tries what can be imported
with contextlib.suppress(ImportError):
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Time = datetime.datetime
Span = tuple[Time, Time]
# a certificate of now is of no use to a host whose clock is a little behind
_BEFORE = datetime.timedelta(hours=1)


class PkiError(Exception):
    """A certificate or a key cannot be used; the text says which and why."""


@dataclass(frozen=True)
class Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def authority(name: str, span: Span) -> Authority:
    key = new_key()
    subject = _named(name)
    built = (
        _builder(subject, subject, key.public_key(), span)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(built, key)


def issued(
    by: Authority, key: ec.EllipticCurvePrivateKey, name: str, addresses: Sequence[str], span: Span
) -> x509.Certificate:
    """For a member, which serves and is a client of the others, too; the JSON API of etcd is a client of its own."""
    alternatives: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        _builder(_named(name), by.certificate.subject, key.public_key(), span)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key()), critical=False)
        .sign(by.key, hashes.SHA256())
    )


def stale(
    certificate: x509.Certificate, by: x509.Certificate, addresses: Sequence[str], now: Time, renew_days: int
) -> str:
    """Why it has to be made anew, or nothing."""
    left = ends(certificate) - now
    if left < datetime.timedelta(days=renew_days):
        return "it has ended" if left < datetime.timedelta() else f"it ends in {left.days} days"
    if not signed_by(certificate, by):
        return "it is of another authority"
    if set(_addresses(certificate)) != {str(ipaddress.ip_address(address)) for address in addresses}:
        return "it is for other addresses"
    return ""


def ends(certificate: x509.Certificate) -> Time:
    # cryptography before 42 has no such property, and its other one has no zone
    found: Time | None = getattr(certificate, "not_valid_after_utc", None)
    return found or certificate.not_valid_after.replace(tzinfo=datetime.timezone.utc)


def signed_by(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    key = by.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or certificate.issuer != by.subject:
        return False
    algorithm = certificate.signature_hash_algorithm
    if algorithm is None:
        return False
    try:
        key.verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(algorithm))
    except InvalidSignature:
        return False
    return True


def belong(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bool:
    return certificate.public_key() == key.public_key()


def certificate_text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def key_text(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def read_certificate(text: str, name: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError:
        raise PkiError(f"{name} is no certificate in PEM.") from None


def read_key(text: str, name: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError):
        raise PkiError(f"{name} is no key in PEM without a password of its own.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise PkiError(f"{name} is no key of an elliptic curve, so it was not made here.")
    return key


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, span: Span
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(span[0] - _BEFORE)
        .not_valid_after(span[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _addresses(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(address) for address in names.get_values_for_type(x509.IPAddress)]
