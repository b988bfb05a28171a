{{/* The release's name, which names all resources; 40 characters leave room for what is added. That of
a service has no dot, and begins with a letter. */}}
{{- define "slidestat.name" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{ regexReplaceAll "^([0-9])" $name "slidestat-${1}" | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "slidestat.selector" -}}
app.kubernetes.io/name: slidestat
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "slidestat.labels" -}}
{{ include "slidestat.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "slidestat.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}
