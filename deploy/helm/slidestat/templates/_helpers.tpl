{{/* The release's name, which names all resources; 40 characters leave room for what is added. */}}
{{- define "slidestat.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "slidestat.selector" -}}
app.kubernetes.io/name: slidestat
app.kubernetes.io/instance: {{ .Release.Name }}
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
