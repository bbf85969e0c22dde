{{- define "lodgekv.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for the suffixes that objects add: -headless, and that of a revision. */}}
{{- define "lodgekv.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "lodgekv.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "lodgekv.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "lodgekv.selectorLabels" -}}
app.kubernetes.io/name: {{ include "lodgekv.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "lodgekv.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "lodgekv.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "lodgekv.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "lodgekv.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "lodgekv.tlsSecret" -}}
{{- default (printf "%s-tls" (include "lodgekv.fullname" .)) .Values.tls.existingSecret -}}
{{- end -}}

{{- define "lodgekv.onDevice" -}}
{{- if eq .Values.storage.kind "device" }}true{{ end -}}
{{- end -}}

{{/* Drain, close, and 5 seconds for what goes on around them. */}}
{{- define "lodgekv.gracePeriod" -}}
{{- with .Values.drain }}{{ add .delaySeconds .graceSeconds .closeSeconds 5 }}{{ end -}}
{{- end -}}

{{/* Of a size such as 6GiB, 8Gi or 8G. */}}
{{- define "lodgekv.bytes" -}}
{{- $units := dict "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- mul (regexFind "^[0-9]+" . | int64) (get $units (regexFind "[MGT]i?" .)) -}}
{{- end -}}

{{/* Of the journal beside a pool; persistent memory has none. */}}
{{- define "lodgekv.journalBytes" -}}
{{- if .Values.storage.volume.local.enabled -}}
0
{{- else if .Values.storage.journalSize -}}
{{- include "lodgekv.bytes" .Values.storage.journalSize -}}
{{- else -}}
{{- min 134217728 (max 1048576 (div (include "lodgekv.bytes" .Values.storage.poolSize | int64) 8)) -}}
{{- end -}}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "lodgekv.check" -}}
{{- include "lodgekv.checkName" . -}}
{{- include "lodgekv.checkTls" . -}}
{{- include "lodgekv.checkStorage" . -}}
{{- end -}}

{{- define "lodgekv.checkName" -}}
{{- $name := include "lodgekv.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "the Services would be called %q, which is not a valid name: only lower-case letters, digits and -, beginning with a letter; install under another release name, or set fullnameOverride" $name) -}}
{{- end -}}
{{- end -}}

{{- define "lodgekv.checkTls" -}}
{{- if and (not .Values.tls.enabled) (not .Values.allowPlaintext) -}}
{{- fail "keys and values would cross the network in plain text: set tls.enabled and one of tls.existingSecret or tls.certificate and tls.key, or allowPlaintext if the network itself is trusted" -}}
{{- end -}}
{{- if and .Values.tls.enabled (not .Values.tls.existingSecret) (or (not .Values.tls.certificate) (not .Values.tls.key)) -}}
{{- fail "tls.enabled is true: set tls.existingSecret, or tls.certificate and tls.key" -}}
{{- end -}}
{{- if and .Values.tls.mutual (not .Values.tls.enabled) -}}
{{- fail "tls.mutual is true but tls.enabled is not: mutual TLS requires TLS" -}}
{{- end -}}
{{- if and .Values.tls.mutual (not .Values.tls.existingSecret) (not .Values.tls.ca) -}}
{{- fail "tls.mutual is true: set tls.ca, or tls.existingSecret with a ca.crt in it" -}}
{{- end -}}
{{- end -}}

{{- define "lodgekv.checkStorage" -}}
{{- $volume := .Values.storage.volume -}}
{{- if include "lodgekv.onDevice" . -}}
{{- if not .Values.storage.device.resource -}}
{{- fail "storage.kind is device: set storage.device.resource to the resource of the device plugin, such as example.com/dax" -}}
{{- end -}}
{{- else -}}
{{- include "lodgekv.checkSizes" .Values.storage -}}
{{- $journal := include "lodgekv.journalBytes" . | int64 -}}
{{- $taken := add $journal (include "lodgekv.bytes" .Values.storage.poolSize | int64) -}}
{{- if and (not $volume.existingClaim) (ge $taken (include "lodgekv.bytes" $volume.size | int64)) -}}
{{- fail (printf "storage.poolSize %s does not fit on a volume of storage.volume.size %s, which also holds its journal of %d bytes (storage.journalSize) and the file system's own data: make the pool smaller or the volume larger" .Values.storage.poolSize $volume.size $journal) -}}
{{- end -}}
{{- if $volume.local.enabled -}}
{{- if $volume.existingClaim -}}
{{- fail "storage.volume.existingClaim and storage.volume.local.enabled exclude each other: the local volume is for the claim of the StatefulSet" -}}
{{- end -}}
{{- if or (not $volume.local.nodes) (not $volume.storageClassName) -}}
{{- fail "storage.volume.local.enabled is true: set storage.volume.local.nodes to the nodes that have the device, and storage.volume.storageClassName to a class without provisioner" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The daemon's limits of pool_size and journal_size. */}}
{{- define "lodgekv.checkSizes" -}}
{{- $pool := include "lodgekv.bytes" .poolSize | int64 -}}
{{- if or (lt $pool 8388608) (gt $pool 17592186044416) -}}
{{- fail (printf "storage.poolSize is %s, it must be 8MiB to 16TiB" .poolSize) -}}
{{- end -}}
{{- with .journalSize -}}
{{- if gt (include "lodgekv.bytes" . | int64) 68719476736 -}}
{{- fail (printf "storage.journalSize is %s, it must be 1MiB to 64GiB, or empty for an eighth of the pool, at most 128MiB" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
