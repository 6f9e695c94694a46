{{- define "cocoon.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* A list as text, and nothing for an empty one. */ -}}
{{- define "cocoon.yaml" -}}
{{- with . }}{{ toYaml . }}{{ end -}}
{{- end }}

{{- /* How the operator and the webhook reach the registry. */ -}}
{{- define "cocoon.registryEnv" -}}
{{- with .Values.ociRegistry }}
- name: OCI_REGISTRY
  value: {{ . | quote }}
{{- end }}
{{- if .Values.registry.enabled }}
- name: EPOCH_TOKEN
  valueFrom:
    secretKeyRef: { name: epoch-token, key: token, optional: true }
{{- if ne .Values.registry.tls "none" }}
- name: EPOCH_URL
  value: https://epoch.cocoon-system.svc:8443
- name: EPOCH_CA_CERT
  value: /etc/cocoon/registry-ca/ca.crt
{{- else }}
- name: EPOCH_URL
  value: http://epoch.cocoon-system.svc:8080
{{- end }}
{{- end }}
{{- end }}

{{- define "cocoon.agentSandboxEnv" -}}
{{- if .Values.agentSandbox.enabled -}}
- name: AGENT_SANDBOX
  value: "true"
{{- end }}
{{- end }}

{{- define "cocoon.sandboxRouterEnv" -}}
{{- if .Values.agentSandbox.enabled -}}
- name: GATEWAY_SANDBOX_ROUTER_ADDR
  value: ":8081"
{{- end }}
{{- end }}

{{- define "cocoon.registryMounts" -}}
{{- if and .Values.registry.enabled (ne .Values.registry.tls "none") -}}
- name: registry-ca
  mountPath: /etc/cocoon/registry-ca
  readOnly: true
{{- end }}
{{- end }}

{{- define "cocoon.registryVolumes" -}}
{{- if and .Values.registry.enabled (ne .Values.registry.tls "none") -}}
- name: registry-ca
  secret:
    secretName: epoch-tls
    defaultMode: 0444
    items: [{ key: ca.crt, path: ca.crt }]
{{- end }}
{{- end }}
